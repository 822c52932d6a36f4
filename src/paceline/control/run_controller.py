"""The control loop of one run: starts its tasks and stores what they send, until the run has ended.

The supervisor decides; the loop here turns messages into events and carries out the supervisor's instructions.
"""

import signal
from collections.abc import Callable, Sequence
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
from paceline.control.job_factory import JobFactory, JobStart, restored_file
from paceline.control.live_bottleneck import MOST_HOSTS, LiveBottleneck
from paceline.control.liveness import LivenessMonitor
from paceline.control.restart_policy import restart_policy
from paceline.control.resume_point import damaged_checkpoint, last_checkpoint, steps_so_far, steps_until
from paceline.control.run_state import RunState
from paceline.control.script_jobs import script_environment
from paceline.control.startup_deadline import slowness, startup_deadline_s
from paceline.control.startup_progress import StartupProgress
from paceline.control.supervisor import Supervisor
from paceline.control.unreached_targets import plateau_incident, time_limit_exceeded
from paceline.control.validate_message import invalid_reason
from paceline.data.dataset import PreparedData
from paceline.engines.registry import engines
from paceline.hosts.base import Host
from paceline.plan.place import RunPlan
from paceline.store.header import ResumePoint
from paceline.store.journal import Restored, TaskAdded
from paceline.store.writer import RunWriter
from paceline.train.context import Job, Outcome

_POLL_EVERY_S = 0.1
StateListener = Callable[[RunState], None]
"""A live view: called about ten times a second with the state of the run."""


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
        self._plan, self._writer, self._cluster = plan, writer, cluster
        self._address = {host.name: host.address for host in hosts}
        self._hosts = {host.name: host for host in hosts}
        self._faults = FaultSchedule.of(plan, start.faults)
        self._task_hosts = {place.task: place.host for place in plan.places}
        self._clocks = HostClocks(cluster, writer, one_clock=plan.shares_one_machine)
        self._files = FileSender(cluster)
        self._startup = StartupProgress(plan.spec.engine, self._task_hosts, is_script=plan.is_script)
        self._attempt = 0
        self._ingest = Ingest(writer, RunState(writer.paths.id, plan))
        policy = restart_policy(plan)
        self._jobs = JobFactory(plan, data, writer.paths.id, self._hosts, policy.reassignable)
        startup_s = startup_deadline_s(plan, self._jobs.cores)
        self._supervisor = Supervisor(plan.layout.hosts, plan.places, writer.now_s(), startup_s, policy)
        self._liveness = LivenessMonitor(plan, cluster, writer, startup_s, slowness(plan))
        self._start = self._initial_start = start
        self._engine = engines()[plan.spec.engine]
        searches = plan.spec.record and len(plan.limits) <= MOST_HOSTS
        self._bottleneck = LiveBottleneck(writer.paths) if searches else None
        if self._bottleneck:
            writer.on_entry = self._bottleneck.add
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
        for reason in interrupts.take_new():
            self._apply_faults(self._faults.end())  # Undo faults first: a stopped task cannot receive Halt.
            self._decide(events.Interrupted(reason))
        for event in self._liveness.check(self._writer.now_s()):
            self._decide(event)
        if (state := self._ingest.state).stage == "training":
            self._apply_faults(self._faults.due(state.update, self._initial_start.trained_s + state.elapsed_s))
            self._check_training(state)
        self._clocks.measure_again(self._writer.now_s())
        self._decide(events.Tick())
        state.tick()
        state.waiting_for = self._startup.detail(self._supervisor.waiting_for, self._files.unsent)

    def _check_training(self, state: RunState) -> None:
        """Record what a user should know while the run trains, and end a run that takes too long."""
        if self._bottleneck and not state.is_ending:
            if incident := self._bottleneck.poll(state.elapsed_s):
                self._carry_out(events.RecordIncident(incident))
            state.bottleneck = self._bottleneck.current
        if not self._plateau_recorded and (incident := plateau_incident(state)):
            self._plateau_recorded = True
            self._carry_out(events.RecordIncident(incident))
        if detail := time_limit_exceeded(state):
            self._decide(events.TimeLimitReached(detail))

    def drain(self) -> None:
        """Store the last records and logs that agents sent while they were closing."""
        while not self._cluster.inbox.empty():
            self._handle(self._cluster.inbox.get())
        if self._bottleneck:
            self._bottleneck.close()
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
                self._startup.started(task)
            case messages.TaskExited(task, code, _, oom):
                self._writer.event("exited", task=task, host=received.host, code=code, oom=oom)
                self._liveness.exited(task)
                self._ingest.state.exited(task)
                self._startup.exited(task)
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
                self._decide(events.TaskFailed(task, error.user_line, error.permanent, error.in_workload))
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
        self._jobs.cores[host] = hello.cores
        self._jobs.memory_bytes[host] = hello.memory_bytes
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
        self._supervisor.startup_s = self._liveness.first_step_s = startup_deadline_s(self._plan, self._jobs.cores)
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
            job = self._jobs.job(task, self._job_start(task, rejoins=not order.all_tasks))
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

    def _job_start(self, task: str, *, rejoins: bool) -> JobStart:
        state = self._ingest.state
        return JobStart(
            point=self._start,
            next_step=state.workers[task].next_step if rejoins and task in state.workers else 0,
            trained_s=self._initial_start.trained_s + state.elapsed_s,
            attempt=self._attempt,
        )

    def _environment(self, job: Job) -> dict[str, str]:
        threads_given = self._plan.spec.threads is not None
        return {**self._engine.environment, **script_environment(job, threads_given=threads_given)}

    def _send_files(self, hosts: set[str]) -> None:
        """Make sure that these hosts have the files that their tasks need."""
        for host in sorted(hosts):
            self._files.ensure(host, self._jobs.data_files, keep=True)
            self._files.ensure(host, (*self._jobs.code_files, *restored_file(self._start)), keep=False)

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

    def _on_run_clock(self, task: str, outcome: Outcome) -> dict[str, Any]:
        host = self._task_hosts[task]
        fields: dict[str, Any] = msgspec.to_builtins(outcome)
        for name in ("started", "ended", "reached"):
            moment_ns = fields.pop(f"{name}_ns")
            fields[f"{name}_s"] = self._clocks.run_time_s(host, moment_ns) if moment_ns else None
        return fields
