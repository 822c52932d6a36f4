"""What to change, as commands: each differs from the run that was judged in the one thing that may help."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from paceline.analyze.bottleneck.suspects import Suspect
from paceline.spec.experiment import RunSpec
from paceline.spec.interval import Interval
from paceline.store.header import RunHeader
from paceline.strategies.descriptor import Strategy

_FLAGS = (
    "size", "examples", "engine", "strategy", "layout", "batch", "eval_every", "checkpoint_every", "hosts", "link",
    "latency", "cpus",
)  # fmt: skip
_SETTINGS = ("lr", "momentum", "threads", "transport", "eval_examples", "trace_every")
_LARGER = 4
_NUMBER = re.compile(r"\d+(\.\d+)?")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the run was told to do."""

    spec: RunSpec
    layout: str
    strategy: Strategy
    alternatives: Mapping[str, Strategy] = {}
    """Strategies that can be suggested, by name."""
    evenly_splitting_engines: tuple[str, ...] = ()
    """Engines to suggest for an even split of the parameters over the servers; none if the run's own engine does it."""
    trains: bool = True
    crowded: bool = False
    """Whether all hosts share one machine."""

    @property
    def words(self) -> list[str]:
        return self.layout.split()

    def command(self, **changes: Any) -> str:
        """The command for the same run with something else."""
        spec = {**msgspec.structs.asdict(self.spec), "layout": self.layout, **changes}
        parts = ["paceline", "run", self.spec.workload]
        for name in _FLAGS:
            if spec[name] is not None and not (name == "batch" and not self.trains):
                parts += [f"--{name.replace('_', '-')}", str(spec[name])]
        for rule in spec["stop"]:
            parts += ["--stop", str(rule)]
        for name in _SETTINGS:
            if spec[name] is not None:
                parts += ["--set", f"{name}={spec[name]}"]
        return shlex.join(parts)

    def with_strategy(self, name: str | None) -> str | None:
        """The command for the same workers with another strategy; None if it cannot be suggested."""
        if name is None or name not in self.alternatives:
            return None
        if self.alternatives[name].has_servers == self.strategy.has_servers:
            return self.command(strategy=name)
        servers = 1 if self.alternatives[name].has_servers else 0
        return self.command(strategy=name, layout=self.layout_with(servers))

    def layout_with(self, servers: int) -> str:
        """The layout with the same workers and so many servers, all of them on the first host."""
        words = [word.replace("p", "") for word in self.words]
        return " ".join(word for word in ["p" * servers + words[0], *words[1:]] if word)


def asked_of(header: RunHeader) -> Asked:
    return Asked(
        spec=header.spec,
        layout=header.layout,
        strategy=header.strategy,
        alternatives={strategy.name: strategy for strategy in header.alternatives},
        evenly_splitting_engines=()
        if header.engine.splits_parameters_evenly
        else header.engine.evenly_splitting_engines,
        trains=header.trains,
        crowded=header.host_kind.shares_one_machine,
    )


def remedies(suspect: Suspect, asked: Asked) -> list[str]:
    """The best first; each says what it does, then how."""
    return [f"{what}: {how}" if how else what for what, how in _of(suspect, asked)]


def _of(suspect: Suspect, asked: Asked) -> Iterator[tuple[str, str]]:
    match suspect.cause:
        case "compute":
            if suspect.because == "quota":
                yield _more_cpus(asked)
            yield from _one_more_worker(asked)
            if asked.crowded:
                yield "or run on more or faster cores: communication is not what holds this back", ""
        case "network":
            yield from _less_to_send(asked)
            link = asked.spec.link
            yield "or a faster link", asked.command(link=_times(link)) if link else ""
        case "server":
            if suspect.because == "quota":
                yield _more_cpus(asked)
            yield "share the parameters out over more servers", asked.command(layout=_a_server_each(asked))
            yield from _larger_batch(asked)
        case "straggler":
            if suspect.because == "quota":
                yield _even_cpus(asked)
            yield from _no_waiting(asked)
        case "barrier":
            yield from _no_waiting(asked)
            yield from _larger_batch(asked)
        case "imbalance":
            yield from _balance(suspect, asked)
        case "input":
            yield "make reading the examples faster, or read them ahead in a thread of your own", ""
        case "overhead":
            yield from _larger_batch(asked)
        case "contention":
            yield from _less_crowded(suspect, asked)
        case "startup":
            yield "train for longer, so that starting is a small part of it", asked.command(stop=_longer(asked))
        case "evaluation":
            every = (asked.spec.eval_every or 100) * 10
            yield "evaluate less often", asked.command(eval_every=every)
        case "checkpoint":
            rarer = _ten_times(asked.spec.checkpoint_every or "100")
            yield "write checkpoints less often", asked.command(checkpoint_every=rarer)


def _less_to_send(asked: Asked) -> Iterator[tuple[str, str]]:
    spec = asked.spec
    if not asked.trains:
        yield "have together what is used together", asked.command(size="colocated")
    elif spec.workload == "sparse-logreg" and spec.size == "dense":
        yield "move only the weights that a batch touches", asked.command(size="sparse")
    elif asked.strategy.has_servers and asked.layout.count("p") < len(asked.words):
        yield "a server on every host, so that no link carries it all", asked.command(layout=_a_server_each(asked))
    if asked.trains:
        yield from _larger_batch(asked)


def _larger_batch(asked: Asked) -> Iterator[tuple[str, str]]:
    if asked.trains:
        batch = asked.spec.batch * _LARGER
        yield "more examples a step, so that there are fewer steps to pay for", asked.command(batch=batch)
    else:
        yield "larger blocks, so that there are fewer of them to move", ""


def _no_waiting(asked: Asked) -> Iterator[tuple[str, str]]:
    if not asked.trains:
        yield "give all hosts the same to do", ""
    elif command := asked.with_strategy(asked.strategy.asynchronous_counterpart):
        yield "let workers not wait for each other", command


def _balance(suspect: Suspect, asked: Asked) -> Iterator[tuple[str, str]]:
    if suspect.because == "servers":
        for engine in asked.evenly_splitting_engines[:1]:
            yield f"cut the parameters evenly over the servers, as engine {engine} does", asked.command(engine=engine)
        yield "or one server", asked.command(layout=asked.layout_with(servers=1))
        return
    if suspect.because == "quota":
        yield _even_cpus(asked)
    if suspect.because in ("contention", "exchange"):
        words = [word.replace("p", "") for word in asked.words]
        yield "a host of its own for the server", asked.command(layout=" ".join(["p", *(w for w in words if w)]))
    if command := asked.with_strategy(asked.strategy.synchronous_counterpart):
        yield "let every update be the mean of all workers", command


def _less_crowded(suspect: Suspect, asked: Asked) -> Iterator[tuple[str, str]]:
    if suspect.because == "others":
        yield "other programs use the machine's cores: end them, or wait", ""
        return
    if asked.layout.count("w") > 1:
        yield "fewer workers on these cores", asked.command(layout=_one_worker_less(asked))
    if not suspect.where.startswith("the machine") and any(len(word) > 1 for word in asked.words):
        yield "a host for each task", asked.command(layout=" ".join(letter for word in asked.words for letter in word))
    yield "or more cores", ""


def _one_more_worker(asked: Asked) -> Iterator[tuple[str, str]]:
    if not asked.strategy.single_worker:
        yield "one more worker", asked.command(layout=f"{asked.layout} w")
    elif several := asked.alternatives.get(asked.strategy.multi_worker_counterpart or ""):
        layout = "pw w" if several.has_servers else "w w"
        yield "share the work among two", asked.command(strategy=several.name, layout=layout)


def _more_cpus(asked: Asked) -> tuple[str, str]:
    return "let the hosts use more cores", asked.command(cpus=_times(str(asked.spec.cpus)))


def _even_cpus(asked: Asked) -> tuple[str, str]:
    shares = [word for word in str(asked.spec.cpus).split() if word != "-"]
    best = max(shares, key=float, default="1")
    return "give every host the same", asked.command(cpus=best)


def _a_server_each(asked: Asked) -> str:
    return " ".join(word if "p" in word else f"p{word}" for word in asked.words)


def _one_worker_less(asked: Asked) -> str:
    kept = asked.layout[::-1].replace("w", "", 1)[::-1]
    return " ".join(kept.split())


def _longer(asked: Asked) -> list[str]:
    """The same rules, ten times as far where they count."""
    longer = []
    for rule in asked.spec.stop:
        kind, _, number = str(rule).partition("=")
        longer.append(f"{kind}={float(number) * 10:g}" if kind in ("steps", "epochs", "seconds") else str(rule))
    return longer


def _times(quantities: str) -> str:
    """`100mbit -` -> `400mbit -`."""
    return _NUMBER.sub(lambda found: f"{float(found[0]) * _LARGER:g}", quantities)


def _ten_times(every: str) -> str:
    """Of updates or a time."""
    interval = Interval.parse(every)
    return f"{10 * interval.value:g}{'s' if interval.unit == 'seconds' else ''}"
