"""Decides what to do about each event of a run: events in, instructions out.

Pure: it does no I/O and reads no clock, so tests can try every order of events.
"""

from collections.abc import Iterable, Sequence
from enum import Enum

from paceline.control.events import (
    AgentJoined,
    AgentLost,
    AskToHalt,
    DisconnectTasks,
    End,
    Event,
    HostFailed,
    Instruction,
    Interrupted,
    KillTasks,
    OpenBarrier,
    RecordIncident,
    RestartPolicy,
    SendPeers,
    StartTasks,
    StoreLost,
    TaskBound,
    TaskDisconnected,
    TaskExited,
    TaskFailed,
    TaskFinished,
    TaskReady,
    TaskStuck,
    Tick,
    TimeLimitReached,
)
from paceline.control.failures import ROOT_CAUSE, Failure, describe, failure_of_error, failure_of_exit
from paceline.control.run_state import WaitingFor
from paceline.control.startup_deadline import STARTUP_DEADLINE_S
from paceline.plan.layout import TaskPlace
from paceline.plan.roles import WORKER
from paceline.train.context import Outcome

ROOT_CAUSE_WINDOW_S = 0.7
"""A task that dies makes its peers fail too. Wait this long for all failures before one is named as the cause."""
HALT_DEADLINE_S = 8.0
SERVER_DEADLINE_S = 3.0
KILL_DEADLINE_S = 3.0


class Stage(Enum):
    """The value completes the sentence "waited N s for …"."""

    JOINING = "the agents to start"
    BINDING = "the tasks to start"
    CONNECTING = "the tasks to connect and compile"
    TRAINING = "the training"
    STOPPING_TO_RESTART = "the tasks to exit or disconnect before a restart"
    HALTING = "the tasks to halt"
    FINDING_ROOT_CAUSE = "reports of which task failed first"
    KILLING = "the tasks to exit"
    ENDED = "nothing"


class Supervisor:
    """Decides for one run. Every event comes with `now_s`."""

    def __init__(
        self,
        hosts: tuple[str, ...],
        places: Sequence[TaskPlace],
        now_s: float,
        startup_s: float = STARTUP_DEADLINE_S,
        policy: RestartPolicy = RestartPolicy(),  # noqa: B008  # frozen
    ) -> None:
        self._hosts, self._task_hosts = set(hosts), {place.task: place.host for place in places}
        self._workers = {place.task for place in places if place.role == WORKER}
        self._joined: set[str] = set()
        self._bound: dict[str, dict[str, str]] = {}
        self._ready: set[str] = set()
        self._alive: set[str] = set()
        self._disconnected: set[str] = set()
        """Alive, but without connections to peers until all tasks are restarted."""
        self._killed_to_restart: set[str] = set()
        """Alive, but killed so that all tasks can be restarted."""
        self._outcomes: dict[str, Outcome] = {}
        self._errors: dict[str, TaskFailed] = {}
        """The error that each failed task has reported."""
        self._failures: list[Failure] = []
        self._end: End | None = None
        self._had_started = False
        self._interrupts = 0
        self.startup_s = startup_s
        """How long the agents, and then the tasks, may take to start."""
        self._policy, self._restarts = policy, 0
        self._rejoining: dict[str, float] = {}
        """Tasks that were restarted alone, with the time by which they must have rejoined."""
        self._stage = Stage.JOINING
        self._deadline_s: float | None = now_s + startup_s

    @property
    def ended(self) -> bool:
        return self._stage is Stage.ENDED

    @property
    def waiting_for(self) -> WaitingFor | None:
        """What the run needs before it can go on; None while every task trains, and after the end."""
        match self._stage:
            case Stage.TRAINING:
                return WaitingFor("the tasks to rejoin", self._names(self._rejoining)) if self._rejoining else None
            case Stage.ENDED:
                return None
            case _:
                return WaitingFor(self._stage.value, self._missing())

    def handle(self, event: Event, now_s: float) -> list[Instruction]:
        if self.ended:
            return []
        match event:
            case AgentJoined(host):
                self._joined.add(host)
                if self._stage is Stage.JOINING and self._joined == self._hosts:
                    return self._start_all(now_s)
            case TaskBound(task, addresses):
                self._bound[task] = addresses
                if task in self._rejoining:
                    return [SendPeers((task,), dict(self._bound))]
                if self._stage is Stage.BINDING and self._bound.keys() == self._task_hosts.keys():
                    self._stage = Stage.CONNECTING
                    return [SendPeers(tuple(self._task_hosts), dict(self._bound))]
            case TaskReady(task):
                self._ready.add(task)
                if self._rejoining.pop(task, None):
                    return [OpenBarrier((task,), self._restarts)]
                if self._stage is Stage.CONNECTING and self._ready == set(self._task_hosts):
                    self._enter(Stage.TRAINING, None)
                    return [OpenBarrier(tuple(self._task_hosts), self._restarts)]
            case TaskFinished(task, outcome):
                return self._finished(task, outcome, now_s)
            case TaskFailed(task):
                self._errors[task] = event
                if self._may_rejoin(task):
                    return []  # The exit of its process follows and decides.
                return self._add_failure(failure_of_error(event, self._task_hosts[task]), now_s)
            case TaskDisconnected(task, line):
                return self._has_disconnected(task, line, now_s)
            case TaskExited():
                return self._exited(event, now_s)
            case TaskStuck(task, detail):
                # Earlier stages have deadlines of their own; a user's script may hang before its first step.
                if self._stage in (Stage.CONNECTING, Stage.TRAINING):
                    return self._stuck(Failure(0, task, self._task_hosts[task] if task else None, detail), now_s)
            case AgentLost(host, detail):
                # Its tasks end with it, and no exit message can arrive any more.
                self._alive -= {task for task, task_host in self._task_hosts.items() if task_host == host}
                return self._add_failure(Failure(0, None, host, f"lost the agent of {host}: {detail}"), now_s)
            case HostFailed(host, line):
                return self._add_failure(Failure(0, None, host, f"{host} {line}"), now_s)
            case StoreLost(detail):
                return self._add_failure(Failure(0, None, None, detail), now_s)
            case Interrupted(reason):
                return self._interrupted(reason, now_s)
            case TimeLimitReached(detail):
                if self._stage is Stage.TRAINING:
                    self._end = End("failed", detail)
                    return self._halt(RecordIncident(detail), now_s)
            case Tick():
                return self._tick(now_s)
        return []

    def _start_all(self, now_s: float) -> list[Instruction]:
        disconnected = tuple(sorted(self._disconnected))
        self._alive = set(self._task_hosts)
        self._disconnected.clear()
        self._killed_to_restart.clear()
        self._bound.clear()
        self._ready.clear()
        self._outcomes.clear()
        self._errors.clear()
        self._failures.clear()
        self._rejoining.clear()
        self._enter(Stage.BINDING, now_s + self.startup_s)
        return [StartTasks(tuple(self._task_hosts), self._restarts, disconnected=disconnected)]

    def _finished(self, task: str, outcome: Outcome, now_s: float) -> list[Instruction]:
        self._outcomes[task] = outcome
        if self._stage is Stage.STOPPING_TO_RESTART:
            return self._kill_to_restart(
                ({task} & self._alive) - self._killed_to_restart
            )  # It finished before it received Disconnect.
        servers = self._alive - self._workers
        if self._stage in (Stage.TRAINING, Stage.HALTING) and self._outcomes.keys() >= self._workers and servers:
            # Some servers know by themselves that the run is over, others must be told.
            if self._stage is Stage.TRAINING:
                self._enter(Stage.HALTING, now_s + SERVER_DEADLINE_S)
            return [AskToHalt(tuple(sorted(servers)))]
        return []

    def _exited(self, event: TaskExited, now_s: float) -> list[Instruction]:
        if event.task not in self._alive:
            return []
        self._alive.remove(event.task)
        self._disconnected.discard(event.task)
        if self._stage is Stage.STOPPING_TO_RESTART:
            return self._restart_if_stopped(now_s)
        instructions: list[Instruction] = []
        if event.task not in self._outcomes and self._stage is not Stage.KILLING:
            failure = failure_of_exit(event, self._errors.get(event.task), self._task_hosts[event.task])
            if self._may_rejoin(event.task):
                return self._restart_alone(event.task, failure, now_s)
            instructions = self._add_failure(failure, now_s)
        if not self._alive and not self.ended:
            instructions += self._restart_or_end(now_s) if self._stage is Stage.FINDING_ROOT_CAUSE else self._finish()
        return instructions

    def _stuck(self, failure: Failure, now_s: float) -> list[Instruction]:
        if failure.task and self._may_rejoin(failure.task):
            # It does not end by itself. The exit of its process triggers the restart.
            return [RecordIncident(failure.line, failure.task, failure.host), KillTasks((failure.task,))]
        return self._add_failure(failure, now_s)

    def _may_rejoin(self, task: str) -> bool:
        has_begun = self._stage is Stage.TRAINING and (task in self._ready or task in self._rejoining)
        would_fail_again = task in self._errors and self._errors[task].permanent
        may = task in self._policy.rejoin and self._restarts < self._policy.max_restarts
        return has_begun and may and not would_fail_again

    def _restart_alone(self, task: str, failure: Failure, now_s: float) -> list[Instruction]:
        """Start one task again while the others continue or wait for it."""
        self._restarts += 1
        self._alive.add(task)
        self._ready.discard(task)
        self._bound.pop(task, None)
        self._errors.pop(task, None)
        self._rejoining[task] = now_s + self.startup_s
        return [RecordIncident(failure.line, task, failure.host), StartTasks((task,), self._restarts, all_tasks=False)]

    def _has_disconnected(self, task: str, line: str, now_s: float) -> list[Instruction]:
        """A task disconnected because its peers are gone, or because it was asked to."""
        self._disconnected.add(task)
        if self._stage is Stage.STOPPING_TO_RESTART:
            return self._restart_if_stopped(now_s)
        return self._add_failure(failure_of_error(TaskFailed(task, line), self._task_hosts[task]), now_s)

    def _add_failure(self, failure: Failure, now_s: float) -> list[Instruction]:
        if self._stage is Stage.KILLING:
            return []
        if self._stage is Stage.STOPPING_TO_RESTART and failure.task is not None:
            return []  # It is about to be restarted.
        self._failures.append(failure)
        if self._stage is not Stage.FINDING_ROOT_CAUSE:
            self._had_started = self._stage is Stage.TRAINING or self._restarts > 0
            self._enter(Stage.FINDING_ROOT_CAUSE, now_s + ROOT_CAUSE_WINDOW_S)
        return self._restart_or_end(now_s) if failure.rank == ROOT_CAUSE else []

    def _restart_or_end(self, now_s: float) -> list[Instruction]:
        """Name the root cause; then restart all tasks, or end the run."""
        # min() is stable: among failures of the same rank it returns the one reported first.
        root = min(self._failures, key=lambda failure: failure.rank)
        report = RecordIncident(root.line, root.task, root.host)
        if self._may_restart_all(root):
            self._restarts += 1
            return [report, *self._stop_to_restart(now_s)]
        if root.workload_error and not self._had_started:
            # Nothing went wrong in the run: it could not begin.
            self._end = End("failed", root.workload_error, refused=True)
            return self._kill(now_s)
        self._end = End("failed", root.line)
        return [report, *self._kill(now_s)]

    def _stop_to_restart(self, now_s: float) -> list[Instruction]:
        """Disconnect the tasks whose process can be kept and kill the others, so that all can be restarted."""
        self._enter(Stage.STOPPING_TO_RESTART, now_s + KILL_DEADLINE_S)
        keep = (self._alive & self._policy.reassignable) - self._outcomes.keys()
        disconnect = [DisconnectTasks(tuple(sorted(keep - self._disconnected)))] if keep - self._disconnected else []
        return [*disconnect, *self._kill_to_restart(self._alive - keep), *self._restart_if_stopped(now_s)]

    def _kill_to_restart(self, tasks: set[str]) -> list[Instruction]:
        self._killed_to_restart |= tasks
        return [KillTasks(tuple(sorted(tasks)))] if tasks else []

    def _restart_if_stopped(self, now_s: float) -> list[Instruction]:
        return self._start_all(now_s) if self._alive == self._disconnected else []

    def _may_restart_all(self, root: Failure) -> bool:
        """Only a run that had begun to train, and only after failures of tasks that may pass.

        A restart does not bring back a lost host, free a full disk or correct the user's code.
        """
        only_tasks = all(failure.task is not None for failure in self._failures) and not root.permanent
        may = self._policy.all_tasks and self._restarts < self._policy.max_restarts and not self._interrupts
        return may and self._had_started and only_tasks

    def _kill(self, now_s: float) -> list[Instruction]:
        if not self._alive:
            return self._finish()
        self._enter(Stage.KILLING, now_s + KILL_DEADLINE_S)
        return [KillTasks(tuple(sorted(self._alive)))]

    def _interrupted(self, reason: str, now_s: float) -> list[Instruction]:
        self._interrupts += 1
        self._end = self._end or End("aborted", reason)
        if self._stage is Stage.TRAINING and self._interrupts == 1:
            return self._halt(RecordIncident(reason), now_s)
        return self._kill(now_s)

    def _halt(self, why: RecordIncident, now_s: float) -> list[Instruction]:
        """Let the workers finish with a checkpoint, a final evaluation and their outcomes."""
        self._enter(Stage.HALTING, now_s + HALT_DEADLINE_S)
        return [why, AskToHalt(tuple(sorted(self._workers)))]

    def _tick(self, now_s: float) -> list[Instruction]:
        late = sorted(task for task, deadline_s in self._rejoining.items() if now_s >= deadline_s)
        if late and self._stage is Stage.TRAINING:
            where = ", ".join(self._describe(task) for task in late)
            return self._add_failure(
                Failure(0, None, None, f"waited {self.startup_s:.0f} s for {where} to rejoin"), now_s
            )
        if self._deadline_s is None or now_s < self._deadline_s:
            return []
        match self._stage:
            case Stage.FINDING_ROOT_CAUSE:
                return self._restart_or_end(now_s)
            case Stage.HALTING:
                return self._kill(now_s)
            case Stage.KILLING:
                return self._finish()
            case Stage.STOPPING_TO_RESTART if slow := self._alive - self._disconnected - self._killed_to_restart:
                # Kill the tasks that did not disconnect in time.
                self._deadline_s = now_s + KILL_DEADLINE_S
                return self._kill_to_restart(slow)
            case Stage.STOPPING_TO_RESTART:
                unkillable = sorted(self._killed_to_restart & self._alive)
                line = f"{', '.join(map(self._describe, unkillable))} cannot be killed"
                self._end = End("failed", line)
                return [RecordIncident(line), *self._kill(now_s)]
            case _:
                line = f"waited {self.startup_s:.0f} s for {self._stage.value}; missing: {', '.join(self._missing())}"
                self._failures.append(Failure(0, None, None, line))
                return self._restart_or_end(now_s)

    def _missing(self) -> tuple[str, ...]:
        """The hosts or tasks that the current stage waits for."""
        match self._stage:
            case Stage.JOINING:
                return tuple(sorted(self._hosts - self._joined))
            case Stage.BINDING:
                return self._names(self._task_hosts.keys() - self._bound.keys())
            case Stage.CONNECTING:
                return self._names(self._task_hosts.keys() - self._ready)
            case Stage.STOPPING_TO_RESTART:
                return self._names(self._alive - self._disconnected)
            case _:
                return self._names(self._alive)

    def _names(self, tasks: Iterable[str]) -> tuple[str, ...]:
        return tuple(self._describe(task) for task in sorted(tasks))

    def _finish(self) -> list[Instruction]:
        end = self._end or self._final_status()
        self._enter(Stage.ENDED, None)
        return [end]

    def _final_status(self) -> End:
        # Checked first: a run that diverges at once may end before every worker has made a step.
        if any(outcome.diverged for outcome in self._outcomes.values()):
            return End("diverged", "the loss is NaN or infinite: try a smaller learning rate (--set lr=…)")
        idle = [task for task in sorted(self._workers) if self._outcomes[task].steps == 0]
        if idle:
            why = next(
                (f": {self._outcomes[task].why_no_step}" for task in idle if self._outcomes[task].why_no_step), ""
            )
            return End("failed", f"{', '.join(self._describe(task) for task in idle)} made no step{why}")
        return End("ok")

    def _describe(self, task: str) -> str:
        return describe(task, self._task_hosts[task])

    def _enter(self, stage: Stage, deadline_s: float | None) -> None:
        self._stage, self._deadline_s = stage, deadline_s
