"""Layouts: which tasks run on which host.

A layout has one word per host and one letter per task: `pw w w` is three hosts, the first with a parameter server and a
worker, the others with a worker each.
"""

import msgspec

from paceline.errors import PlanError, unknown
from paceline.plan.roles import SERVER, WORKER, host_names, task_name

MAX_HOSTS = 64
MAX_TASKS = 256
"""Larger layouts are taken for a mistake: all hosts of the built-in kinds share one machine."""
_ROLES = {"p": SERVER, "w": WORKER}
NAMED_WORKERS = {"single": 1, "cluster": 2, "cluster2": 3}
"""The number of workers of each layout that has a name."""


class TaskPlace(msgspec.Struct, frozen=True):
    """A task and the host that it runs on."""

    task: str
    role: str
    index: int
    host: str


class Layout(msgspec.Struct, frozen=True):
    words: tuple[str, ...]
    """The letters of the tasks of each host: ("pw", "w", "w")."""

    def __str__(self) -> str:
        return " ".join(self.words)

    @property
    def hosts(self) -> tuple[str, ...]:
        return host_names(len(self.words))

    @property
    def workers(self) -> int:
        return sum(word.count("w") for word in self.words)

    @property
    def servers(self) -> int:
        return sum(word.count("p") for word in self.words)

    def places(self) -> tuple[TaskPlace, ...]:
        """All tasks: parameter servers first, then workers, each role numbered from 0 in the order of the hosts."""
        places = []
        for letter, role in _ROLES.items():
            hosts = [host for host, word in zip(self.hosts, self.words, strict=True) for _ in range(word.count(letter))]
            places += [TaskPlace(task_name(role, i), role, i, host) for i, host in enumerate(hosts)]
        return tuple(places)


def resolve(text: str, *, needs_server: bool) -> Layout:
    """The layout with this name, with a parameter server if the strategy needs one, or of these host words."""
    if text in NAMED_WORKERS:
        first = "pw" if needs_server else "w"
        return Layout((first, *["w"] * (NAMED_WORKERS[text] - 1)))
    return parse(text)


def parse(text: str) -> Layout:
    """The layout of host words such as `pw w w`."""
    words = text.split()
    if not words:
        raise PlanError(
            "layout is empty: write one word of p (parameter server) and w (worker) per host, e.g. 'pw w w'"
        )
    for word in words:
        if set(word) - set(_ROLES):
            if len(words) == 1 and len(word) > 2:
                raise PlanError(
                    unknown("layout", word, NAMED_WORKERS) + ", or write one word of p and w per host ('pw w w')"
                )
            raise PlanError(
                f"layout '{text}': '{word}' is not a host: use p (parameter server) and w (worker), e.g. 'pw w w'"
            )
    layout = Layout(tuple("p" * word.count("p") + "w" * word.count("w") for word in words))
    if len(words) > MAX_HOSTS or layout.workers + layout.servers > MAX_TASKS:
        raise PlanError(f"layout has too many tasks: must be at most {MAX_HOSTS} hosts and {MAX_TASKS} tasks")
    return layout
