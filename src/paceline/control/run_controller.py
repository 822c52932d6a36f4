"""Executes one planned run: opens its hosts, starts its tasks, stores what they send, until the run has ended.

The supervisor decides; the loop here turns messages into events and carries out the supervisor's instructions.
"""

import secrets
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from paceline import messages
from paceline.control import events as events
from paceline.control.clocks import HostClocks
from paceline.control.cluster import AgentClosed, Cluster, Received
from paceline.control.fault_schedule import Action, FaultBegan, FaultEnded, FaultSchedule, SendSignal, SetCondition
from paceline.control.file_sender import FileSender
from paceline.control.host_check import explain_start_failure, reason_to_refuse
from paceline.control.ingest import Ingest
from paceline.control.interrupts import Interrupts
from paceline.control.links import prepare_links
from paceline.control.liveness import AGENT_LEASE_S, LivenessMonitor
from paceline.control.resume_point import damaged_checkpoint, last_checkpoint, steps_so_far, steps_until
from paceline.control.run_state import RunState
from paceline.control.script_jobs import code_references, script_environment, script_job
from paceline.control.startup_deadline import slowness, startup_deadline_s
from paceline.control.supervisor import Stage, Supervisor
from paceline.control.unreached_targets import plateau_incident, time_limit_exceeded
from paceline.control.validate_message import invalid_reason
from paceline.data.dataset import PreparedData
from paceline.engines.registry import engines
from paceline.files.reference import FileRef, reference, references
from paceline.hosts.base import Host, HostProvider, HostRequest
from paceline.plan.place import RunPlan
from paceline.plan.roles import CHIEF
from paceline.preload import preload_of
from paceline.spec.fault import HOST_FAULTS
from paceline.spec.interval import Interval
from paceline.spec.training import shuffle_buffer
from paceline.store.header import ResumePoint
from paceline.store.journal import Restored, TaskAdded
from paceline.store.writer import RunWriter
from paceline.train.context import Job, Outcome
from paceline.workloads.registry import workload_of

_POLL_EVERY_S = 0.1
_NO_HOSTS_YET = "interrupted before its hosts were there"
StateListener = Callable[[RunState], None]
"""A live view: called about ten times a second with the state of the run."""


def restart_policy(plan: RunPlan) -> events.RestartPolicy:
    """Engine and strategy decide which tasks can be restarted alone; the user decides whether they are."""
    spec = plan.spec
    if spec.on_failure == "fail":
        return events.RestartPolicy()
    restart_requested = spec.on_failure == "restart"
    others_continue = not plan.strategy.synchronous or plan.strategy.others_take_over
    workers_can_rejoin = (
        plan.servers and engines()[spec.engine].workers_rejoin and (restart_requested or others_continue)
    )
    workers = frozenset(place.task for place in plan.workers) if workers_can_rejoin else frozenset()
    # All workers read the parameter values in the chief's shared memory, so the chief cannot be restarted alone. With
    # backup workers or in asynchronous runs, every worker has its own copy.
    cannot_restart_alone = (
        {CHIEF} if plan.strategy.synchronous and plan.transport == "memory" and not spec.backup else set()
    )
    reassignable = workers if restart_requested and plan.trains else frozenset()
    return events.RestartPolicy(
        rejoin=workers - cannot_restart_alone,
        all_tasks=restart_requested,
        reassignable=reassignable,
        max_restarts=spec.restarts,
    )


def host_requests(plan: RunPlan) -> list[HostRequest]:
    return [
        HostRequest(
            name=limits.host,
            link_bits_s=limits.link_bits_s,
            latency_s=limits.latency_s,
            cpus=limits.cpus,
            faults=frozenset(fault.kind for fault in plan.spec.fault if fault.host == limits.host) & HOST_FAULTS,
            preload=preload_of(plan.spec.engine),
        )
        for limits in plan.limits
    ]


def execute(
    plan: RunPlan,
    provider: HostProvider,
    data: PreparedData,
    writer: RunWriter,
    listener: StateListener,
    interrupts: Interrupts,
    start: ResumePoint = ResumePoint(),  # noqa: B008  # frozen
) -> events.End:
    """Execute the run. However it ends, no process is left and its end is stored as an event."""
    token = f"{writer.paths.id[-12:]}-{secrets.token_hex(3)}".strip("-")
    with ExitStack() as stack:
        try:
            with interrupts.raised():
                hosts = stack.enter_context(provider.open(token, host_requests(plan)))
        except KeyboardInterrupt:
            writer.event("ended", status="aborted", reason=_NO_HOSTS_YET)
            return events.End("aborted", _NO_HOSTS_YET)
        links = prepare_links(plan, hosts, writer.paths.runs, writer.paths.spool / "links")
        for host, capacity in links.capacities.items():
            writer.event("link", host=host, **msgspec.to_builtins(capacity))
        if links.pairs:
            writer.event("links", **msgspec.to_builtins(links))
        sample_hz = plan.spec.sample_hz if plan.spec.record else 0
        distributions = {plan.spec.engine: engines()[plan.spec.engine].distributions}
        setup = messages.Setup("", sample_hz, AGENT_LEASE_S, distributions, hash_code=not plan.shares_filesystem)
        spool = writer.paths.spool.absolute() if plan.shares_filesystem else None
        cluster = Cluster(hosts, writer.paths.logs, spool, setup)
        controller = RunController(plan, data, writer, cluster, hosts, start)
        try:
            end = controller.run(interrupts, listener)
        finally:
            cluster.close()
            controller.drain()
    writer.event("ended", status=end.status, reason=end.reason)
    return end


class RunController:
    """The control loop of one run: messages become events, instructions become messages."""

    def __init__(
        self,
        plan: RunPlan,
        data: PreparedData,
        writer: RunWriter,
        cluster: Cluster,
        hosts: Sequence[Host],
        start: ResumePoint,
    ) -> None:
        self._plan, self._data, self._writer, self._cluster = plan, data, writer, cluster
        self._address = {host.name: host.address for host in hosts}
        self._hosts = {host.name: host for host in hosts}
        self._faults = FaultSchedule.of(plan, start.faults)
        self._task_hosts = {place.task: place.host for place in plan.places}
        self._clocks = HostClocks(cluster, writer, one_clock=plan.shares_one_machine)
        self._files = FileSender(cluster)
        self._data_files = references(data.paths)
        self._code_files = code_references(plan)
        self._attempt = 0
        self._cores: dict[str, int] = {}
        """Of each host that has joined."""
        self._memory_bytes: dict[str, int] = {}
        self._ingest = Ingest(writer, RunState(writer.paths.id, plan))
        startup_s = startup_deadline_s(plan, self._cores)
        self._policy = restart_policy(plan)
        self._supervisor = Supervisor(plan.layout.hosts, plan.places, writer.now_s(), startup_s, self._policy)
        self._liveness = LivenessMonitor(plan, cluster, writer, startup_s, slowness(plan))
        self._start = self._initial_start = start
        self._engine = engines()[plan.spec.engine]
        self._secrets = self._engine.new_secrets()
        self._end: events.End | None = None
        self._plateau_recorded = False

    def run(self, interrupts: Interrupts, listener: StateListener) -> events.End:
        poll_s = 0.0
        while self._end is None:
            wait_s = poll_s - self._writer.now_s()
            if wait_s <= 0:
                self._poll(interrupts)
                listener(self._ingest.state)
                # Counted from the end of the poll, so that a slow poll still leaves time for messages.
                poll_s = self._writer.now_s() + _POLL_EVERY_S
            elif received := self._cluster.next(timeout_s=wait_s):
                self._handle(received)
            # Checked after each message: the final parameters, which arrive last, may not fit on the disk.
            if self._writer.write_error:
                self._decide(events.StoreLost(self._writer.write_error))
        self._clocks.measure_now()
        listener(self._ingest.state)
        return self._end

    def _poll(self, interrupts: Interrupts) -> None:
        """Handle what no message announces: Ctrl-C, silent agents, due faults, deadlines."""
        for _ in range(interrupts.take_new()):
            self._apply_faults(self._faults.end())  # Undo faults first: a stopped task cannot receive Halt.
            self._decide(events.Interrupted())
        for event in self._liveness.check(self._writer.now_s()):
            self._decide(event)
        if (state := self._ingest.state).stage == "training":
            self._apply_faults(self._faults.due(state.update, self._initial_start.trained_s + state.elapsed_s))
            self._check_targets(state)
        self._clocks.measure_again(self._writer.now_s())
        self._decide(events.Tick())
        state.tick()
        state.waiting_for = self._supervisor.waiting_for
        if self._plan.is_script and state.waiting_for and state.waiting_for.what == Stage.CONNECTING.value:
            state.waiting_for = msgspec.structs.replace(state.waiting_for, what="the first step of the script")

    def _check_targets(self, state: RunState) -> None:
        """Record once that the run may not reach its target, and end a run that takes too long."""
        if not self._plateau_recorded and (incident := plateau_incident(state)):
            self._plateau_recorded = True
            self._carry_out(events.RecordIncident(incident))
        if detail := time_limit_exceeded(state):
            self._decide(events.TimeLimitReached(detail))

    def drain(self) -> None:
        """Store the last records and logs that agents sent while they were closing."""
        while not self._cluster.inbox.empty():
            self._handle(self._cluster.inbox.get())
        self._ingest.close()

    def _handle(self, received: Received | AgentClosed) -> None:
        if isinstance(received, AgentClosed):
            self._liveness.lost(received.host)
            self._decide(events.AgentLost(received.host, explain_start_failure(received.detail, self._plan.spec.hosts)))
            return
        if why := invalid_reason(received.host, received.message, self._task_hosts):
            self._decide(events.AgentLost(received.host, why))
            return
        match received.message:
            case messages.Records() as message:
                self._liveness.recorded(message.task, self._ingest.records(message))
            case messages.Busy() as message:
                self._liveness.busy(message)
                self._ingest.state.busy(message.task, message.activity)
            case messages.Stacks() as message:
                self._liveness.stacks(message)
            case messages.Samples() as message:
                self._ingest.samples(received.host, message)
            case messages.Log() as message:
                self._ingest.log(message)
            case messages.Hello() as message:
                self._join(received.host, message)
            case messages.NeedFiles(sha256):
                self._files.requested(received.host, sha256)
            case messages.FilesFailed(line):
                self._decide(events.HostFailed(received.host, line))
            case messages.TaskStarted(task, pid):
                self._writer.event("started", task=task, host=received.host, pid=pid)
            case messages.TaskExited(task, code, _, oom):
                self._writer.event("exited", task=task, host=received.host, code=code, oom=oom)
                self._liveness.exited(task)
                self._ingest.state.exited(task)
                self._decide(events.TaskExited(task, code, oom))
            case messages.TaskMessage(task, message):
                self._handle_task(task, message)

    def _handle_task(self, task: str, message: messages.FromTask) -> None:
        match message:
            case messages.Bound(addresses):
                self._decide(events.TaskBound(task, addresses))
            case messages.ThreadsChosen(threads):
                self._writer.event("assigned", task=task, threads=threads, chosen_by="measurement")
            case messages.Ready():
                self._writer.event("ready", task=task)
                self._decide(events.TaskReady(task))
            case messages.Finished(raw):
                outcome = msgspec.msgpack.decode(raw, type=Outcome)
                self._writer.event("finished", task=task, **self._on_run_clock(task, outcome))
                self._liveness.done(task)
                self._ingest.state.finished(task)
                self._decide(events.TaskFinished(task, outcome))
            case messages.Failed():
                # Shortened by the task already, unless something is wrong on its host.
                error = message.shortened()
                self._writer.event(
                    "failed", task=task, line=error.user_line, traceback=error.traceback, permanent=error.permanent
                )
                self._decide(events.TaskFailed(task, error.user_line, error.permanent))
            case messages.Disconnected(line):
                self._decide(events.TaskDisconnected(task, line))
            case messages.Attached() as message:
                self._ingest.attached(task, message)
            case messages.LastStep():
                self._send_to_tasks(tuple(self._task_hosts), message)

    def _join(self, host: str, hello: messages.Hello) -> None:
        if self._supervisor.ended:
            return
        if refusal := reason_to_refuse(hello, self._plan.spec.engine, self._engine, self._plan.spec.hosts):
            self._decide(events.HostFailed(host, refusal))
            return
        clock = self._clocks.measure(host)
        if clock is None:
            self._decide(events.AgentLost(host, "no answer to pings"))
            return
        self._cores[host] = hello.cores
        self._memory_bytes[host] = hello.memory_bytes
        self._writer.event(
            "joined",
            host=host,
            address=self._address[host],
            cores=hello.cores,
            memory_bytes=hello.memory_bytes,
            network=hello.network,
            machine=hello.machine,
            versions={"python": hello.python, "paceline": hello.paceline, **hello.engines},
            free_disk_bytes=hello.free_disk_bytes,
            clock_offset_ns=clock.offset_ns,
            clock_uncertainty_ns=clock.uncertainty_ns,
            agent_round_trip_ns=clock.round_trip_ns,
        )
        self._liveness.joined(host)
        self._supervisor.startup_s = self._liveness.first_step_s = startup_deadline_s(self._plan, self._cores)
        self._decide(events.AgentJoined(host))

    def _decide(self, event: events.Event) -> None:
        for instruction in self._supervisor.handle(event, self._writer.now_s()):
            self._carry_out(instruction)

    def _carry_out(self, instruction: events.Instruction) -> None:
        match instruction:
            case events.StartTasks():
                self._start_tasks(instruction)
            case events.SendPeers(tasks, addresses):
                own = {
                    task: {messages.HOST: self._address[host], messages.HOST_NAME: host}
                    for task, host in self._task_hosts.items()
                }
                self._send_to_tasks(tasks, messages.Peers({task: own[task] | more for task, more in addresses.items()}))
                if self._plan.is_script:
                    self._liveness.opened(tasks)  # The script runs from now on, and may hang before its first step.
            case events.OpenBarrier(tasks, attempt):
                self._send_to_tasks(tasks, messages.Go())
                self._liveness.opened(tasks)
                if attempt:
                    self._writer.event("back", tasks=tasks)
                    self._ingest.state.begin(tasks)
                else:
                    self._writer.event("go")
                    self._ingest.state.open()
            case events.AskToHalt(tasks):
                self._send_to_tasks(tasks, messages.Halt())
            case events.DisconnectTasks(tasks):
                self._send_to_tasks(tasks, messages.Disconnect())
                self._liveness.disconnected(tasks)
            case events.KillTasks(tasks):
                for task in tasks:
                    self._cluster.send(self._task_hosts[task], messages.Signal(task, signal.SIGKILL))
            case events.RecordIncident(what, task, host):
                self._writer.event("incident", what=what, task=task, host=host)
                self._ingest.state.add_incident(what, task or host)
            case events.End():
                self._end = instruction
                self._ingest.state.end(instruction.status)

    def _start_tasks(self, order: events.StartTasks) -> None:
        self._attempt = order.attempt
        if order.attempt:
            self._writer.event("restarting", tasks=order.tasks, attempt=order.attempt, whole=order.all_tasks)
            self._ingest.state.restarting(order.tasks)
        if order.attempt and order.all_tasks:
            self._restore_checkpoint()
        self._send_files({self._task_hosts[task] for task in order.tasks})
        for task in order.tasks:
            job = self._job(task, rejoins=not order.all_tasks)
            if not order.attempt:
                self._writer.add(TaskAdded(task, self._task_hosts[task]))
                self._writer.event("assigned", task=task, threads=job.threads)
            raw = msgspec.Raw(msgspec.msgpack.encode(job))
            if task in order.disconnected:
                self._send_to_tasks((task,), messages.Reassign(raw))
                continue
            start = messages.StartTask(
                task, raw, self._environment(job), folder_variables=self._engine.folder_variables
            )
            self._cluster.send(self._task_hosts[task], start)

    def _environment(self, job: Job) -> dict[str, str]:
        threads_given = self._plan.spec.threads is not None
        return {**self._engine.environment, **script_environment(job, threads_given=threads_given)}

    def _send_files(self, hosts: set[str]) -> None:
        """Make sure that these hosts have the files that their tasks need."""
        for host in sorted(hosts):
            self._files.ensure(host, self._data_files, keep=True)
            self._files.ensure(host, (*self._code_files, *self._restored_file()), keep=False)

    def _restored_file(self) -> tuple[FileRef, ...]:
        """The checkpoint from which the tasks start; empty if they start from the initial values."""
        return (reference(Path(self._start.checkpoint)),) if self._start.checkpoint else ()

    def _restore_checkpoint(self) -> None:
        """Set the point from which all tasks will continue: the last checkpoint, or where the run started."""
        state, found = self._ingest.state, last_checkpoint(self._writer.paths)
        for line in found.damaged:
            self._carry_out(events.RecordIncident(damaged_checkpoint(line)))
        # Without a checkpoint in this run, start where this run started: perhaps a checkpoint of the run it continues.
        self._start = self._initial_start
        if found.path:
            steps = steps_until(steps_so_far(self._writer.paths), found.update, self._initial_start.steps)
            self._start = ResumePoint(checkpoint=str(found.path.absolute()), update=found.update, steps=steps)
        lost = max(0, state.update - self._start.update)
        self._writer.add(Restored(self._start.update))
        self._writer.event("restored", update=self._start.update, lost=lost, taints=True)
        what = f"all tasks restart from update {self._start.update}: {lost} updates are lost and repeated"
        self._carry_out(events.RecordIncident(what))

    def _apply_faults(self, actions: list[Action]) -> None:
        """Carry out actions of injected faults."""
        for action in actions:
            match action:
                case FaultBegan(fault) | FaultEnded(fault):
                    began, home = isinstance(action, FaultBegan), self._task_hosts.get(fault.target)
                    (self._ingest.state.add_fault if began else self._ingest.state.end_fault)(fault)
                    name = "fault" if began else "fault-over"
                    self._writer.event(name, what=str(fault), task=fault.task, host=fault.host or home)
                case SendSignal(task, number):
                    self._cluster.send(self._task_hosts[task], messages.Signal(task, number))
                case SetCondition(host, condition):
                    self._hosts[host].apply_condition(condition)

    def _send_to_tasks(self, tasks: tuple[str, ...], message: messages.ToTask) -> None:
        for task in tasks:
            self._cluster.send(self._task_hosts[task], messages.SendToTask(task, message))

    def _job(self, task: str, *, rejoins: bool) -> Job:
        """The job of a task. `rejoins`: it is restarted alone while the other tasks continue."""
        plan, spec = self._plan, self._plan.spec
        place = next(place for place in plan.places if place.task == task)
        work = workload_of(spec, plan.size)
        state = self._ingest.state
        next_step = state.workers[task].next_step if rejoins and task in state.workers else 0
        return Job(
            run=self._writer.paths.id,
            task=task,
            role=place.role,
            index=place.index,
            workers=len(plan.workers),
            servers=len(plan.servers),
            address=self._address[place.host],
            ports=self._hosts[place.host].ports,
            workload=spec.workload,
            code=self._code_files,
            size=plan.size,
            data=replace(self._data, paths=()),
            data_files=self._data_files,
            examples=spec.examples,
            engine=spec.engine,
            entry_point=self._engine.tasks[place.role],
            may_pass=self._engine.may_pass,
            strategy=spec.strategy,
            synchronous=plan.strategy.synchronous,
            batch=spec.batch,
            seed=spec.seed,
            lr=plan.learning_rate(work.lr),
            momentum=spec.momentum if spec.momentum is not None else work.momentum,
            stop=spec.stop,
            update_limit=plan.update_limit,
            updates_per_epoch=plan.updates_per_epoch,
            eval_every=plan.eval_every,
            eval_examples=spec.eval_examples,
            checkpoint_every=Interval.parse(spec.checkpoint_every) if spec.checkpoint_every else None,
            threads=spec.threads or self._fair_threads(place.host),
            tune_threads=spec.threads is None,
            memory_bytes=self._fair_memory(place.host),
            options={name: value for name in self._engine.options if (value := getattr(spec, name)) is not None},
            trace_every=spec.trace_every,
            transport=plan.transport,
            record=spec.record,
            secrets=self._secrets.get(place.role, {}),
            backup=spec.backup,
            restore=next(iter(self._restored_file()), None),
            first_step=max(next_step, self._start.steps.get(task, 0)),
            trained_s=self._initial_start.trained_s + state.elapsed_s,
            init=spec.init,
            activation=spec.activation,
            shard="worker" if spec.shard == "worker" else "global",
            shuffle_buffer=shuffle_buffer(spec.shuffle),
            steps_per_epoch=spec.steps_per_epoch,
            eval_by=spec.eval_by,
            histograms=spec.histograms,
            reassignable=task in self._policy.reassignable,
            script=script_job(plan, place, self._attempt),
        )

    def _fair_threads(self, host: str) -> int:
        """Threads for a task on `host`: an equal share of the cores among the workers that compete for them."""
        workers, cores = self._plan.workers, self._cores[host]
        workers_on_host = sum(worker.host == host for worker in workers) or 1
        machine_share = cores // (len(workers) if self._plan.shares_one_machine else workers_on_host)
        cpus = next(limits.cpus for limits in self._plan.limits if limits.host == host)
        host_share = int((cpus or cores) // workers_on_host)
        limits = workload_of(self._plan.spec, self._plan.size).most_threads or cores
        return max(1, min(machine_share, host_share, limits))

    def _fair_memory(self, host: str) -> int:
        """Memory for a task on `host`: an equal share among the tasks of its machine."""
        places = self._plan.places
        on_machine = len(places) if self._plan.shares_one_machine else sum(place.host == host for place in places)
        return self._memory_bytes[host] // max(1, on_machine)

    def _on_run_clock(self, task: str, outcome: Outcome) -> dict[str, Any]:
        host = self._task_hosts[task]
        fields: dict[str, Any] = msgspec.to_builtins(outcome)
        for name in ("started", "ended", "reached"):
            moment_ns = fields.pop(f"{name}_ns")
            fields[f"{name}_s"] = self._clocks.run_time_s(host, moment_ns) if moment_ns else None
        return fields
