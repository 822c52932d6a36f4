"""One planned run, from its hosts to its stored end. The loop here only carries out what the supervisor decides."""

import secrets
import signal
from collections.abc import Callable
from typing import Any

import msgspec

from paceline import messages
from paceline.control import events as words
from paceline.control.cluster import Cluster, Heard, Lost
from paceline.control.fault_schedule import Action, Began, Hold, Over, Schedule, Send
from paceline.control.ingest import Ingest
from paceline.control.interrupts import Interrupts
from paceline.control.link_capacity import capacities
from paceline.control.liveness import AGENT_LEASE_S, LivenessMonitor
from paceline.control.resume_point import ResumePoint, last_checkpoint, steps_so_far, steps_until
from paceline.control.run_state import RunState
from paceline.control.supervisor import STARTUP_DEADLINE_S, Supervisor
from paceline.control.validate_message import invalid_reason
from paceline.data.dataset import PreparedData
from paceline.engines.registry import ENGINES
from paceline.hosts.base import Host, HostKind, HostRequest
from paceline.plan.place import RunPlan
from paceline.spec.interval import Interval
from paceline.store.journal import ClockOffset, TaskAdded
from paceline.store.writer import RunWriter
from paceline.train.context import Job, Outcome
from paceline.workloads.registry import workload
from paceline.workloads.user_workload import absolute

_LOOK_EVERY_S = 0.1
Watch = Callable[[RunState], None]
"""Called often with the state of the run, by a live view."""


def restart_policy(plan: RunPlan) -> words.RestartPolicy:
    """Which tasks may come back alone is a matter of engine and strategy; whether they may is the user's."""
    spec = plan.spec
    if spec.on_failure == "fail":
        return words.RestartPolicy()
    asked = spec.on_failure == "restart"
    able = plan.servers and ENGINES[spec.engine].workers_rejoin and (asked or not plan.synchronous)
    workers = frozenset(place.task for place in plan.workers) if able else frozenset()
    # The values of all lie in its memory.
    rooted = {"w0"} if plan.synchronous and plan.transport == "memory" and not spec.backup else set()
    regroup = workers if asked and plan.trains else frozenset()
    return words.RestartPolicy(rejoin=workers - rooted, whole=asked, regroup=regroup, restarts=spec.restarts)


def host_requests(plan: RunPlan) -> list[HostRequest]:
    return [
        HostRequest(
            name=most.host,
            link_bits_s=most.link_bits_s,
            latency_s=most.latency_s,
            cpus=most.cpus,
            faults=frozenset(one.kind for one in plan.spec.fault if one.host == most.host) & {"cut", "limit", "slow"},
        )
        for most in plan.limits
    ]


def execute(
    plan: RunPlan,
    kind: HostKind,
    data: PreparedData,
    writer: RunWriter,
    watch: Watch,
    interrupts: Interrupts,
    start: ResumePoint = ResumePoint(),  # noqa: B008  # frozen
) -> words.End:
    """Run it; however it ends, nothing is left running and the end is in the run's events."""
    token = f"{writer.paths.id[-12:]}-{secrets.token_hex(3)}".strip("-")
    with kind.open(token, host_requests(plan)) as hosts:
        if kind.has_links:
            for host, link in capacities(plan, hosts, writer.paths.runs, writer.paths.spool / "links").items():
                writer.event("link", host=host, **msgspec.to_builtins(link))
        sample_hz = plan.spec.sample_hz if plan.spec.record else 0
        cluster = Cluster(hosts, writer.paths.logs, writer.paths.spool.absolute(), sample_hz, AGENT_LEASE_S)
        conductor = RunController(plan, kind, data, writer, cluster, hosts, start)
        try:
            end = conductor.conduct(interrupts, watch)
        finally:
            cluster.close()
            conductor.drain()
    writer.event("ended", status=end.status, reason=end.reason)
    return end


class RunController:
    """Turns messages into events, and instructions into messages."""

    def __init__(
        self,
        plan: RunPlan,
        kind: HostKind,
        data: PreparedData,
        writer: RunWriter,
        cluster: Cluster,
        hosts: list[Host],
        start: ResumePoint,
    ) -> None:
        self._plan, self._kind, self._data, self._writer, self._cluster = plan, kind, data, writer, cluster
        self._address = {host.name: host.address for host in hosts}
        self._hosts = {host.name: host for host in hosts}
        self._faults = Schedule.of(plan)
        self._home = {place.task: place.host for place in plan.places}
        self._clock_offset: dict[str, int] = {}
        self._cores = 1
        self._collector = Ingest(writer, RunState(writer.paths.id, plan))
        # A host with little CPU takes as much longer to load a framework.
        slowness = 1 / min(1.0, *(most.cpus or 1.0 for most in plan.limits))
        startup_s = STARTUP_DEADLINE_S * slowness
        self._policy = restart_policy(plan)
        self._supervisor = Supervisor(plan.layout.hosts, self._home, writer.now_s(), startup_s, self._policy)
        self._vigil = LivenessMonitor(plan, cluster, writer, startup_s, slowness)
        self._start = self._first_start = start
        self._secrets = ENGINES[plan.spec.engine].new_secrets()
        self._end: words.End | None = None

    def conduct(self, interrupts: Interrupts, watch: Watch) -> words.End:
        look_s = 0.0
        while self._end is None:
            left_s = look_s - self._writer.now_s()
            if left_s <= 0:
                self._look_around(interrupts)
                watch(self._collector.moment)
                # However much is heard in between: looking takes as long as listening does.
                look_s = self._writer.now_s() + _LOOK_EVERY_S
            elif heard := self._cluster.next(within_s=left_s):
                self._hear(heard)
            # At every turn: what comes last, the final parameters, may find no room.
            if self._writer.trouble:
                self._decide(words.StoreLost(self._writer.trouble))
        watch(self._collector.moment)
        return self._end

    def _look_around(self, interrupts: Interrupts) -> None:
        """For what nobody says: the user's wish, silence, faults that are due, deadlines."""
        for _ in range(interrupts.take()):
            self._cause(self._faults.end())  # Who is frozen could not hear that it is to halt.
            self._decide(words.Interrupted())
        for event in self._vigil.look(self._writer.now_s()):
            self._decide(event)
        if (moment := self._collector.moment).stage == "training":
            self._cause(self._faults.due(moment.update, moment.elapsed_s))
        self._decide(words.Tick())

    def drain(self) -> None:
        """What agents still sent while they were closing: the last records and logs."""
        while not self._cluster.inbox.empty():
            self._hear(self._cluster.inbox.get())
        self._collector.close()

    def _hear(self, heard: Heard | Lost) -> None:
        if isinstance(heard, Lost):
            self._vigil.lost(heard.host)
            self._decide(words.AgentLost(heard.host, heard.detail))
            return
        if why := invalid_reason(heard.host, heard.message, self._home):
            self._decide(words.AgentLost(heard.host, why))
            return
        match heard.message:
            case messages.Records() as message:
                self._vigil.recorded(message.task, self._collector.records(message))
            case messages.Busy() as message:
                self._vigil.aside(message)
            case messages.Stacks() as message:
                self._vigil.stacks(message)
            case messages.Samples() as message:
                self._collector.samples(heard.host, message)
            case messages.Log() as message:
                self._collector.log(message)
            case messages.Hello() as message:
                self._join(heard.host, message)
            case messages.TaskStarted(task, pid):
                self._writer.event("started", task=task, host=heard.host, pid=pid)
            case messages.TaskExited(task, code, _, oom):
                self._writer.event("exited", task=task, host=heard.host, code=code, oom=oom)
                self._vigil.exited(task)
                self._decide(words.TaskExited(task, code, oom))
            case messages.TaskMessage(task, said):
                self._hear_task(task, said)

    def _hear_task(self, task: str, said: messages.FromTask) -> None:
        match said:
            case messages.Bound(addresses):
                self._decide(words.TaskBound(task, addresses))
            case messages.Ready():
                self._writer.event("ready", task=task)
                self._decide(words.TaskReady(task))
            case messages.Finished(raw):
                outcome = msgspec.msgpack.decode(raw, type=Outcome)
                self._writer.event("finished", task=task, **self._on_run_clock(task, outcome))
                self._vigil.done(task)
                self._decide(words.TaskFinished(task, outcome))
            case messages.Failed(line, traceback):
                self._writer.event("failed", task=task, line=line, traceback=traceback)
                self._decide(words.TaskFailed(task, line))
            case messages.Disconnected(line):
                self._decide(words.TaskDisconnected(task, line))
            case messages.Attached() as message:
                self._collector.attached(task, message)

    def _join(self, host: str, hello: messages.Hello) -> None:
        if self._supervisor.ended:
            return
        clock = self._cluster.measure_clock(host)
        if clock is None:
            self._decide(words.AgentLost(host, "it does not answer pings"))
            return
        self._cores = hello.cores
        self._clock_offset[host] = clock.offset_ns - self._writer.zero_ns
        self._writer.add(ClockOffset(host, self._clock_offset[host], clock.uncertainty_ns))
        self._writer.event(
            "joined",
            host=host,
            address=self._address[host],
            cores=hello.cores,
            memory_bytes=hello.memory_bytes,
            network=hello.network,
            clock_offset_ns=clock.offset_ns,
            clock_uncertainty_ns=clock.uncertainty_ns,
        )
        self._vigil.joined(host)
        self._decide(words.AgentJoined(host))

    def _decide(self, event: words.Event) -> None:
        for instruction in self._supervisor.handle(event, self._writer.now_s()):
            self._carry_out(instruction)

    def _carry_out(self, instruction: words.Instruction) -> None:
        match instruction:
            case words.StartTasks():
                self._start_tasks(instruction)
            case words.SendPeers(tasks, addresses):
                own = {task: {messages.HOST: self._address[host]} for task, host in self._home.items()}
                self._tell(tasks, messages.Peers({task: own[task] | more for task, more in addresses.items()}))
            case words.OpenBarrier(tasks, attempt):
                self._tell(tasks, messages.Go())
                self._vigil.opened(tasks)
                if attempt:
                    self._writer.event("back", tasks=tasks)
                else:
                    self._writer.event("go")
                    self._collector.moment.open()
            case words.AskToHalt(tasks):
                self._tell(tasks, messages.Halt())
            case words.DisconnectTasks(tasks):
                self._tell(tasks, messages.Disconnect())
                self._vigil.recalled(tasks)
            case words.KillTasks(tasks):
                for task in tasks:
                    self._cluster.send(self._home[task], messages.Signal(task, signal.SIGKILL))
            case words.RecordIncident(what, task, host):
                self._writer.event("incident", what=what, task=task, host=host)
                self._collector.moment.incidents += 1
            case words.End():
                self._end = instruction
                self._collector.moment.end(instruction.status)

    def _start_tasks(self, order: words.StartTasks) -> None:
        if order.attempt:
            self._writer.event("restarting", tasks=order.tasks, attempt=order.attempt, whole=order.whole)
        if order.attempt and order.whole:
            self._go_back()
        for task in order.tasks:
            job = self._job(task, returns=not order.whole)
            if not order.attempt:
                self._writer.add(TaskAdded(task, self._home[task]))
                self._writer.event("assigned", task=task, threads=job.threads)
            raw = msgspec.Raw(msgspec.msgpack.encode(job))
            if task in order.stranded:
                self._tell((task,), messages.Reassign(raw))
                continue
            self._cluster.send(self._home[task], messages.StartTask(task, raw, ENGINES[job.engine].env))

    def _go_back(self) -> None:
        """All start again, from the last checkpoint; where there is none, from where they started."""
        moment, found = self._collector.moment, last_checkpoint(self._writer.paths)
        # Checkpoints of the run that this one continues lie with that run.
        self._start = self._first_start
        if found:
            path, update = found
            steps = steps_until(steps_so_far(self._writer.paths), update, self._first_start.steps)
            self._start = ResumePoint(checkpoint=str(path.absolute()), update=update, steps=steps)
        lost = max(0, moment.update - self._start.update)
        self._writer.event("restored", update=self._start.update, lost=lost, taints=True)
        what = f"all tasks go back to update {self._start.update}: {lost} updates are lost and made again"
        self._carry_out(words.RecordIncident(what))

    def _cause(self, actions: list[Action]) -> None:
        """Faults that were asked for."""
        for action in actions:
            match action:
                case Began(fault) | Over(fault):
                    name, home = "fault" if isinstance(action, Began) else "fault-over", self._home.get(fault.target)
                    self._writer.event(name, what=str(fault), task=fault.task, host=fault.host or home)
                case Send(task, number):
                    self._cluster.send(self._home[task], messages.Signal(task, number))
                case Hold(host, condition):
                    self._hosts[host].hold_to(condition)

    def _tell(self, tasks: tuple[str, ...], message: messages.ToTask) -> None:
        for task in tasks:
            self._cluster.send(self._home[task], messages.SendToTask(task, message))

    def _job(self, task: str, *, returns: bool) -> Job:
        """`returns`: the others are at work, and it comes back to them."""
        plan, spec = self._plan, self._plan.spec
        place = next(place for place in plan.places if place.task == task)
        server_secrets, worker_secrets = self._secrets
        work = workload(spec.workload, plan.size)
        moment = self._collector.moment
        came_to = moment.workers[task].next_step if returns and task in moment.workers else 0
        return Job(
            run=self._writer.paths.id,
            task=task,
            role=place.role,
            index=place.index,
            workers=len(plan.workers),
            servers=len(plan.servers),
            address=self._address[place.host],
            workload=absolute(spec.workload),
            size=plan.size,
            data=self._data,
            examples=spec.examples,
            engine=spec.engine,
            strategy=spec.strategy,
            synchronous=plan.synchronous,
            batch=spec.batch,
            seed=spec.seed,
            lr=spec.lr if spec.lr is not None else work.lr,
            momentum=spec.momentum if spec.momentum is not None else work.momentum,
            stop=spec.stop,
            update_limit=plan.update_limit,
            updates_per_epoch=plan.updates_per_epoch,
            eval_every=plan.eval_every,
            eval_examples=spec.eval_examples,
            checkpoint_every=Interval.parse(spec.checkpoint_every) if spec.checkpoint_every else None,
            threads=spec.threads or self._fair_threads(place.host),
            trace_every=spec.trace_every,
            transport=plan.transport,
            record=spec.record,
            secrets=server_secrets if place.role == "ps" else worker_secrets,
            backup=spec.backup,
            restore=self._start.checkpoint,
            first_step=max(came_to, self._start.steps.get(task, 0)),
            trained_s=self._first_start.trained_s + moment.elapsed_s,
            regroups=task in self._policy.regroup,
        )

    def _fair_threads(self, host: str) -> int:
        """An even share of the cores for each worker that competes for them."""
        workers = self._plan.workers
        mine = sum(worker.host == host for worker in workers) or 1
        machine_share = self._cores // (len(workers) if self._kind.shares_one_machine else mine)
        cpus = next(most.cpus for most in self._plan.limits if most.host == host)
        host_share = int((cpus or self._cores) // mine)
        most = workload(self._plan.spec.workload, self._plan.size).most_threads or self._cores
        return max(1, min(machine_share, host_share, most))

    def _on_run_clock(self, task: str, outcome: Outcome) -> dict[str, Any]:
        offset = self._clock_offset[self._home[task]]
        fields: dict[str, Any] = msgspec.to_builtins(outcome)
        for name in ("started", "ended", "reached"):
            moment_ns = fields.pop(f"{name}_ns")
            fields[f"{name}_s"] = (moment_ns + offset) / 1e9 if moment_ns else None
        return fields
