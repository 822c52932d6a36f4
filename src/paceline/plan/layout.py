"""Layouts: hosts are words, tasks are letters. `pw w w` is three hosts, the first with a server and a worker."""

import msgspec

from paceline.errors import PlanError, unknown

MAX_HOSTS = 64
MAX_TASKS = 256
_ROLES = {"p": "ps", "w": "w"}
NAMED_WORKERS = {"single": 1, "cluster": 2, "cluster2": 3}


class TaskPlace(msgspec.Struct, frozen=True):
    """One task on one host."""

    task: str
    role: str
    index: int
    host: str


class Layout(msgspec.Struct, frozen=True):
    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.words)

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(f"h{number}" for number in range(1, len(self.words) + 1))

    @property
    def workers(self) -> int:
        return sum(word.count("w") for word in self.words)

    @property
    def servers(self) -> int:
        return sum(word.count("p") for word in self.words)

    def places(self) -> tuple[TaskPlace, ...]:
        """All tasks: servers first, then workers, each numbered in the order of hosts."""
        found = []
        for letter, role in _ROLES.items():
            hosts = [host for host, word in zip(self.hosts, self.words, strict=True) for mark in word if mark == letter]
            found += [TaskPlace(f"{role}{i}", role, i, host) for i, host in enumerate(hosts)]
        return tuple(found)


def resolve(text: str, *, needs_server: bool) -> Layout:
    """A layout from its name (which adapts to the strategy) or from its host words."""
    if text in NAMED_WORKERS:
        first = "pw" if needs_server else "w"
        return Layout((first, *["w"] * (NAMED_WORKERS[text] - 1)))
    return parse(text)


def parse(text: str) -> Layout:
    words = text.split()
    if not words:
        raise PlanError("layout is empty: write hosts as words of p and w, e.g. 'pw w w'")
    for word in words:
        if set(word) - set(_ROLES):
            if len(words) == 1 and len(word) > 2:
                raise PlanError(unknown("layout", word, NAMED_WORKERS) + ", or host words of p and w ('pw w w')")
            raise PlanError(f"layout '{text}': '{word}' is not a host: use p (server) and w (worker), e.g. 'pw w w'")
    layout = Layout(tuple("p" * word.count("p") + "w" * word.count("w") for word in words))
    if len(words) > MAX_HOSTS or layout.workers + layout.servers > MAX_TASKS:
        raise PlanError(f"layout has too many tasks: at most {MAX_HOSTS} hosts and {MAX_TASKS} tasks")
    return layout
