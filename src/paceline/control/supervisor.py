"""What to do when something happens in a run: events in, instructions out. Pure, so every order can be tested."""

import signal
from enum import Enum

import msgspec

from paceline.store.result import Status
from paceline.train.context import Outcome

STARTUP_DEADLINE_S = 180.0
BLAME_WINDOW_S = 0.7
"""A death makes others fail too; how long to wait for the news of who was first."""
HALT_DEADLINE_S = 8.0
SERVER_DEADLINE_S = 3.0
KILL_DEADLINE_S = 3.0


# ---- events ----


class AgentJoined(msgspec.Struct, frozen=True):
    host: str


class AgentLost(msgspec.Struct, frozen=True):
    host: str
    detail: str


class TaskBound(msgspec.Struct, frozen=True):
    task: str
    addresses: dict[str, str]


class TaskReady(msgspec.Struct, frozen=True):
    task: str


class TaskFinished(msgspec.Struct, frozen=True):
    task: str
    outcome: Outcome


class TaskFailed(msgspec.Struct, frozen=True):
    task: str
    user_line: str


class TaskExited(msgspec.Struct, frozen=True):
    task: str
    code: int
    oom: bool = False


class TaskStuck(msgspec.Struct, frozen=True):
    """A task makes no progress; where every task is has been written down. `detail` is the whole line."""

    task: str | None
    """None if nothing tells who of several it is."""
    detail: str


class StoreLost(msgspec.Struct, frozen=True):
    """What is measured can no longer be kept."""

    detail: str


class Interrupted(msgspec.Struct, frozen=True):
    """The user pressed Ctrl-C once more."""


class Tick(msgspec.Struct, frozen=True):
    """Time passed."""


Event = (
    AgentJoined
    | AgentLost
    | TaskBound
    | TaskReady
    | TaskFinished
    | TaskFailed
    | TaskExited
    | TaskStuck
    | StoreLost
    | Interrupted
    | Tick
)


# ---- instructions ----


class StartTasks(msgspec.Struct, frozen=True):
    pass


class Introduce(msgspec.Struct, frozen=True):
    addresses: dict[str, dict[str, str]]


class OpenBarrier(msgspec.Struct, frozen=True):
    pass


class AskToHalt(msgspec.Struct, frozen=True):
    tasks: tuple[str, ...]


class KillTasks(msgspec.Struct, frozen=True):
    tasks: tuple[str, ...]


class Report(msgspec.Struct, frozen=True):
    """An incident for the run's record."""

    what: str
    task: str | None = None
    host: str | None = None


class End(msgspec.Struct, frozen=True):
    status: Status
    reason: str | None = None


Instruction = StartTasks | Introduce | OpenBarrier | AskToHalt | KillTasks | Report | End


class Stage(Enum):
    JOINING = "the agents to start"
    BINDING = "the tasks to start"
    CONNECTING = "the tasks to get ready"
    TRAINING = "the training"
    HALTING = "the tasks to halt"
    BLAMING = "news of who failed first"
    KILLING = "the tasks to die"
    ENDED = "nothing"


class Blame(msgspec.Struct, frozen=True):
    rank: int
    """Lower is nearer to the root of the trouble."""
    task: str | None
    host: str | None
    line: str


class Supervisor:
    """Decides for one run. `now_s` comes with every event; nothing here looks at a clock."""

    def __init__(
        self, hosts: tuple[str, ...], tasks: dict[str, str], now_s: float, startup_s: float = STARTUP_DEADLINE_S
    ) -> None:
        self._hosts, self._home = set(hosts), dict(tasks)
        self._workers = {task for task in tasks if task.startswith("w")}
        self._joined: set[str] = set()
        self._bound: dict[str, dict[str, str]] = {}
        self._ready: set[str] = set()
        self._alive: set[str] = set()
        self._outcomes: dict[str, Outcome] = {}
        self._said: dict[str, str] = {}
        self._blames: list[Blame] = []
        self._end: End | None = None
        self._interrupts = 0
        self._startup_s = startup_s
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
                    self._alive = set(self._home)
                    self._stage = Stage.BINDING
                    return [StartTasks()]
            case TaskBound(task, addresses):
                self._bound[task] = addresses
                if self._stage is Stage.BINDING and self._bound.keys() == self._home.keys():
                    self._stage = Stage.CONNECTING
                    return [Introduce(dict(self._bound))]
            case TaskReady(task):
                self._ready.add(task)
                if self._stage is Stage.CONNECTING and self._ready == set(self._home):
                    self._enter(Stage.TRAINING, None)
                    return [OpenBarrier()]
            case TaskFinished(task, outcome):
                return self._finished(task, outcome, now_s)
            case TaskFailed(task, line):
                self._said[task] = line
                return self._fail(Blame(2, task, self._home[task], f"{self._where(task)} failed: {line}"), now_s)
            case TaskExited():
                return self._exited(event, now_s)
            case TaskStuck(task, detail):
                # Outside of the training there are other deadlines.
                if self._stage is Stage.TRAINING:
                    return self._fail(Blame(0, task, self._home[task] if task else None, detail), now_s)
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

    def _finished(self, task: str, outcome: Outcome, now_s: float) -> list[Instruction]:
        self._outcomes[task] = outcome
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
        instructions: list[Instruction] = []
        if event.task not in self._outcomes and self._stage is not Stage.KILLING:
            instructions = self._fail(self._blame_exit(event), now_s)
        if not self._alive and self._stage is not Stage.BLAMING:
            instructions += self._conclude()
        elif not self._alive:
            instructions += self._condemn(now_s)
        return instructions

    def _blame_exit(self, event: TaskExited) -> Blame:
        where, host = self._where(event.task), self._home[event.task]
        if event.oom:
            return Blame(0, event.task, host, f"{where} was killed: out of memory")
        if event.code < 0:
            return Blame(0, event.task, host, f"{where} was killed by {_signal_name(-event.code)}")
        if event.task in self._said:
            return Blame(2, event.task, host, f"{where} failed: {self._said[event.task]}")
        return Blame(1, event.task, host, f"{where} exited with code {event.code} before it was done")

    def _fail(self, blame: Blame, now_s: float) -> list[Instruction]:
        if self._stage is Stage.KILLING:
            return []
        self._blames.append(blame)
        if self._stage is not Stage.BLAMING:
            self._enter(Stage.BLAMING, now_s + BLAME_WINDOW_S)
        return []

    def _condemn(self, now_s: float) -> list[Instruction]:
        """Name the root of the trouble and end the rest."""
        # min() is stable: among equals the first one reported counts.
        root = min(self._blames, key=lambda blame: blame.rank)
        self._end = End("failed", root.line)
        return [Report(root.line, root.task, root.host), *self._kill(now_s)]

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
            return [Report("interrupted by the user"), AskToHalt(tuple(sorted(self._workers)))]
        return self._kill(now_s)

    def _tick(self, now_s: float) -> list[Instruction]:
        if self._deadline_s is None or now_s < self._deadline_s:
            return []
        match self._stage:
            case Stage.BLAMING:
                return self._condemn(now_s)
            case Stage.HALTING:
                return self._kill(now_s)
            case Stage.KILLING:
                return self._conclude()
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
        idle = [task for task in sorted(self._workers) if self._outcomes[task].steps == 0]
        if idle:
            return End("failed", f"{', '.join(self._where(task) for task in idle)} made no step")
        if any(outcome.diverged for outcome in self._outcomes.values()):
            return End("diverged", "the loss is no longer a finite number: try a smaller learning rate (--set lr=…)")
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
