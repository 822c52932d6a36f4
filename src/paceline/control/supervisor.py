"""What to do when something happens in a run: events in, instructions out. Pure, so every order can be tested."""

import signal
from enum import Enum

import msgspec

from paceline.control.events import (
    AgentJoined,
    AgentLost,
    AskToHalt,
    DisconnectTasks,
    End,
    Event,
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
)
from paceline.train.context import Outcome

STARTUP_DEADLINE_S = 180.0
BLAME_WINDOW_S = 0.7
"""A death makes others fail too; how long to wait for the news of who was first."""
CERTAIN = -1
"""Nothing that happens to its peers kills a task from outside."""
HALT_DEADLINE_S = 8.0
SERVER_DEADLINE_S = 3.0
KILL_DEADLINE_S = 3.0


class Stage(Enum):
    JOINING = "the agents to start"
    BINDING = "the tasks to start"
    CONNECTING = "the tasks to get ready"
    TRAINING = "the training"
    CLEARING = "the tasks to die or let go of each other, to be started again"
    HALTING = "the tasks to halt"
    BLAMING = "news of who failed first"
    KILLING = "the tasks to die"
    ENDED = "nothing"


class Blame(msgspec.Struct, frozen=True):
    rank: int
    """Lower is nearer to the root of the trouble; at CERTAIN there is nothing to wait for."""
    task: str | None
    host: str | None
    line: str


class Supervisor:
    """Decides for one run. `now_s` comes with every event; nothing here looks at a clock."""

    def __init__(
        self,
        hosts: tuple[str, ...],
        tasks: dict[str, str],
        now_s: float,
        startup_s: float = STARTUP_DEADLINE_S,
        policy: RestartPolicy = RestartPolicy(),  # noqa: B008  # frozen
    ) -> None:
        self._hosts, self._home = set(hosts), dict(tasks)
        self._workers = {task for task in tasks if task.startswith("w")}
        self._joined: set[str] = set()
        self._bound: dict[str, dict[str, str]] = {}
        self._ready: set[str] = set()
        self._alive: set[str] = set()
        self._stranded: set[str] = set()
        """Alive, but without peers until all are started again."""
        self._doomed: set[str] = set()
        """Alive, but told to die so that all can be started again."""
        self._outcomes: dict[str, Outcome] = {}
        self._said: dict[str, str] = {}
        self._blames: list[Blame] = []
        self._end: End | None = None
        self._restartable = False
        self._interrupts = 0
        self._startup_s = startup_s
        self._policy, self._attempts = policy, 0
        self._returning: dict[str, float] = {}
        """Tasks on their way back to the others, and until when they must be there."""
        self._stage = Stage.JOINING
        self._deadline_s: float | None = now_s + startup_s

    @property
    def ended(self) -> bool:
        return self._stage is Stage.ENDED

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
                if task in self._returning:
                    return [SendPeers((task,), dict(self._bound))]
                if self._stage is Stage.BINDING and self._bound.keys() == self._home.keys():
                    self._stage = Stage.CONNECTING
                    return [SendPeers(tuple(self._home), dict(self._bound))]
            case TaskReady(task):
                self._ready.add(task)
                if self._returning.pop(task, None):
                    return [OpenBarrier((task,), self._attempts)]
                if self._stage is Stage.CONNECTING and self._ready == set(self._home):
                    self._enter(Stage.TRAINING, None)
                    return [OpenBarrier(tuple(self._home), self._attempts)]
            case TaskFinished(task, outcome):
                return self._finished(task, outcome, now_s)
            case TaskFailed(task, line):
                self._said[task] = line
                if self._may_rejoin(task):
                    return []  # Its exit, which follows, decides.
                return self._fail(self._blame_words(task, line), now_s)
            case TaskDisconnected(task, line):
                return self._has_let_go(task, line, now_s)
            case TaskExited():
                return self._exited(event, now_s)
            case TaskStuck(task, detail):
                # Outside of the training there are other deadlines.
                if self._stage is Stage.TRAINING:
                    return self._stuck(Blame(0, task, self._home[task] if task else None, detail), now_s)
            case AgentLost(host, detail):
                # Its tasks end with it, and nobody is left to tell.
                self._alive -= {task for task, home in self._home.items() if home == host}
                return self._fail(Blame(0, None, host, f"the agent of {host} is gone: {detail}"), now_s)
            case StoreLost(detail):
                return self._fail(Blame(0, None, None, detail), now_s)
            case Interrupted():
                return self._interrupted(now_s)
            case Tick():
                return self._tick(now_s)
        return []

    def _start_all(self, now_s: float) -> list[Instruction]:
        stranded = tuple(sorted(self._stranded))
        self._alive = set(self._home)
        self._stranded.clear()
        self._doomed.clear()
        self._bound.clear()
        self._ready.clear()
        self._outcomes.clear()
        self._said.clear()
        self._blames.clear()
        self._returning.clear()
        self._enter(Stage.BINDING, now_s + self._startup_s)
        return [StartTasks(tuple(self._home), self._attempts, stranded=stranded)]

    def _finished(self, task: str, outcome: Outcome, now_s: float) -> list[Instruction]:
        self._outcomes[task] = outcome
        if self._stage is Stage.CLEARING:
            return self._doom(({task} & self._alive) - self._doomed)  # It was done before it heard that all go back.
        servers = self._alive - self._workers
        if self._stage in (Stage.TRAINING, Stage.HALTING) and self._outcomes.keys() >= self._workers and servers:
            # Some servers know that they are done, others must be told.
            if self._stage is Stage.TRAINING:
                self._enter(Stage.HALTING, now_s + SERVER_DEADLINE_S)
            return [AskToHalt(tuple(sorted(servers)))]
        return []

    def _exited(self, event: TaskExited, now_s: float) -> list[Instruction]:
        if event.task not in self._alive:
            return []
        self._alive.remove(event.task)
        self._stranded.discard(event.task)
        if self._stage is Stage.CLEARING:
            return self._start_if_cleared(now_s)
        instructions: list[Instruction] = []
        if event.task not in self._outcomes and self._stage is not Stage.KILLING:
            blame = self._blame_exit(event)
            if self._may_rejoin(event.task):
                return self._bring_back(event.task, blame, now_s)
            instructions = self._fail(blame, now_s)
        if not self._alive and not self.ended:
            instructions += self._condemn(now_s) if self._stage is Stage.BLAMING else self._conclude()
        return instructions

    def _stuck(self, blame: Blame, now_s: float) -> list[Instruction]:
        if blame.task and self._may_rejoin(blame.task):
            # It does not end by itself; its exit brings it back.
            return [RecordIncident(blame.line, blame.task, blame.host), KillTasks((blame.task,))]
        return self._fail(blame, now_s)

    def _may_rejoin(self, task: str) -> bool:
        has_begun = self._stage is Stage.TRAINING and (task in self._ready or task in self._returning)
        return has_begun and task in self._policy.rejoin and self._attempts < self._policy.restarts

    def _bring_back(self, task: str, blame: Blame, now_s: float) -> list[Instruction]:
        """The others go on, or wait, until it is there again."""
        self._attempts += 1
        self._alive.add(task)
        self._ready.discard(task)
        self._bound.pop(task, None)
        self._said.pop(task, None)
        self._returning[task] = now_s + self._startup_s
        return [RecordIncident(blame.line, task, blame.host), StartTasks((task,), self._attempts, whole=False)]

    def _blame_exit(self, event: TaskExited) -> Blame:
        where, host = self._where(event.task), self._home[event.task]
        if event.oom:
            return Blame(CERTAIN, event.task, host, f"{where} was killed: out of memory")
        if event.task in self._said:
            return self._blame_words(event.task, self._said[event.task])
        if event.code < 0:
            rank = CERTAIN if event.code == -signal.SIGKILL else 0
            return Blame(rank, event.task, host, f"{where} was killed by {_signal_name(-event.code)}")
        return Blame(1, event.task, host, f"{where} exited with code {event.code} before it was done")

    def _blame_words(self, task: str, line: str) -> Blame:
        return Blame(2, task, self._home[task], f"{self._where(task)} failed: {line}")

    def _has_let_go(self, task: str, line: str, now_s: float) -> list[Instruction]:
        """By itself, because its peers are gone, or because it was told to."""
        self._stranded.add(task)
        if self._stage is Stage.CLEARING:
            return self._start_if_cleared(now_s)
        return self._fail(self._blame_words(task, line), now_s)

    def _fail(self, blame: Blame, now_s: float) -> list[Instruction]:
        if self._stage is Stage.KILLING:
            return []
        if self._stage is Stage.CLEARING and blame.task is not None:
            return []  # It is about to be started again.
        self._blames.append(blame)
        if self._stage is not Stage.BLAMING:
            self._restartable = self._stage is Stage.TRAINING or self._attempts > 0
            self._enter(Stage.BLAMING, now_s + BLAME_WINDOW_S)
        return self._condemn(now_s) if blame.rank == CERTAIN else []

    def _condemn(self, now_s: float) -> list[Instruction]:
        """Name the root of the trouble, and end the rest or start all again."""
        # min() is stable: among equals the first one reported counts.
        root = min(self._blames, key=lambda blame: blame.rank)
        report = RecordIncident(root.line, root.task, root.host)
        if self._may_start_again():
            self._attempts += 1
            return [report, *self._clear(now_s)]
        self._end = End("failed", root.line)
        return [report, *self._kill(now_s)]

    def _clear(self, now_s: float) -> list[Instruction]:
        """Until nobody is left who has to do with those that are gone."""
        self._enter(Stage.CLEARING, now_s + KILL_DEADLINE_S)
        keep = (self._alive & self._policy.regroup) - self._outcomes.keys()
        recall = [DisconnectTasks(tuple(sorted(keep - self._stranded)))] if keep - self._stranded else []
        return [*recall, *self._doom(self._alive - keep), *self._start_if_cleared(now_s)]

    def _doom(self, tasks: set[str]) -> list[Instruction]:
        self._doomed |= tasks
        return [KillTasks(tuple(sorted(tasks)))] if tasks else []

    def _start_if_cleared(self, now_s: float) -> list[Instruction]:
        return self._start_all(now_s) if self._alive == self._stranded else []

    def _may_start_again(self) -> bool:
        """Only what began to train, and only for tasks: a lost host or a full disk will not be better next time."""
        only_tasks = all(blame.task is not None for blame in self._blames)
        may = self._policy.whole and self._attempts < self._policy.restarts and not self._interrupts
        return may and self._restartable and only_tasks

    def _kill(self, now_s: float) -> list[Instruction]:
        if not self._alive:
            return self._conclude()
        self._enter(Stage.KILLING, now_s + KILL_DEADLINE_S)
        return [KillTasks(tuple(sorted(self._alive)))]

    def _interrupted(self, now_s: float) -> list[Instruction]:
        self._interrupts += 1
        self._end = self._end or End("aborted", "interrupted by the user")
        if self._stage is Stage.TRAINING and self._interrupts == 1:
            self._enter(Stage.HALTING, now_s + HALT_DEADLINE_S)
            return [RecordIncident("interrupted by the user"), AskToHalt(tuple(sorted(self._workers)))]
        return self._kill(now_s)

    def _tick(self, now_s: float) -> list[Instruction]:
        late = sorted(task for task, deadline_s in self._returning.items() if now_s >= deadline_s)
        if late and self._stage is Stage.TRAINING:
            where = ", ".join(self._where(task) for task in late)
            return self._fail(Blame(0, None, None, f"waited {self._startup_s:.0f} s for {where} to come back"), now_s)
        if self._deadline_s is None or now_s < self._deadline_s:
            return []
        match self._stage:
            case Stage.BLAMING:
                return self._condemn(now_s)
            case Stage.HALTING:
                return self._kill(now_s)
            case Stage.KILLING:
                return self._conclude()
            case Stage.CLEARING if slow := self._alive - self._stranded - self._doomed:
                # Whoever does not let go in time has to go.
                self._deadline_s = now_s + KILL_DEADLINE_S
                return self._doom(slow)
            case Stage.CLEARING:
                line = f"{', '.join(self._where(task) for task in sorted(self._doomed & self._alive))} cannot be killed"
                self._end = End("failed", line)
                return [RecordIncident(line), *self._kill(now_s)]
            case _:
                line = f"waited {self._startup_s:.0f} s for {self._stage.value}; not there: {self._missing()}"
                self._blames.append(Blame(0, None, None, line))
                return self._condemn(now_s)

    def _missing(self) -> str:
        match self._stage:
            case Stage.JOINING:
                return ", ".join(sorted(self._hosts - self._joined))
            case Stage.BINDING:
                return ", ".join(self._where(task) for task in sorted(self._home.keys() - self._bound.keys()))
            case _:
                return ", ".join(self._where(task) for task in sorted(set(self._home) - self._ready))

    def _conclude(self) -> list[Instruction]:
        end = self._end or self._judge()
        self._enter(Stage.ENDED, None)
        return [end]

    def _judge(self) -> End:
        # First: a run that diverges at once may end before everyone has made a step.
        if any(outcome.diverged for outcome in self._outcomes.values()):
            return End("diverged", "the loss is no longer a finite number: try a smaller learning rate (--set lr=…)")
        idle = [task for task in sorted(self._workers) if self._outcomes[task].steps == 0]
        if idle:
            return End("failed", f"{', '.join(self._where(task) for task in idle)} made no step")
        return End("ok")

    def _where(self, task: str) -> str:
        return f"{task} on {self._home[task]}"

    def _enter(self, stage: Stage, deadline_s: float | None) -> None:
        self._stage, self._deadline_s = stage, deadline_s


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
