"""What to change against a bottleneck: a sentence and the command of the same run with that one change."""

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
"""Factor for a larger batch, link rate or CPU share: large enough that its effect exceeds the noise."""
_NUMBER = re.compile(r"\d+(\.\d+)?")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the run was asked to do."""

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
        """The command of the same run with some settings changed."""
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
    """Most promising first; each is an advice and, where one setting does it, the command."""
    return [f"{advice}; command: {command}" if command else advice for advice, command in _of(suspect, asked)]


def _of(suspect: Suspect, asked: Asked) -> Iterator[tuple[str, str]]:
    match suspect.cause:
        case "compute":
            if suspect.because == "quota":
                yield _more_cpus(asked)
            yield from _one_more_worker(asked)
            if asked.crowded:
                yield "use more or faster cores: communication is not the bottleneck", ""
        case "network":
            yield from _less_to_send(asked)
            link = asked.spec.link
            yield "use a faster link", asked.command(link=_times(link)) if link else ""
        case "server":
            if suspect.because == "quota":
                yield _more_cpus(asked)
            yield "distribute the parameters over more servers", asked.command(layout=_a_server_each(asked))
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
            yield "speed up data loading, or prefetch batches in a separate thread", ""
        case "overhead":
            yield from _larger_batch(asked)
        case "contention":
            yield from _less_crowded(suspect, asked)
        case "startup":
            yield "train longer, so that startup is a small part of the total time", asked.command(stop=_longer(asked))
        case "evaluation":
            every = (asked.spec.eval_every or 100) * 10
            yield "evaluate less often", asked.command(eval_every=every)
        case "checkpoint":
            rarer = _ten_times(asked.spec.checkpoint_every or "100")
            yield "write checkpoints less often", asked.command(checkpoint_every=rarer)


def _less_to_send(asked: Asked) -> Iterator[tuple[str, str]]:
    spec = asked.spec
    if not asked.trains:
        yield "place the blocks that are multiplied on the same host", asked.command(size="colocated")
    elif spec.workload == "sparse-logreg" and spec.size == "dense":
        yield "transfer only the weights that a batch uses", asked.command(size="sparse")
    elif asked.strategy.has_servers and asked.layout.count("p") < len(asked.words):
        advice = "run a parameter server on every host, to spread the traffic over all links"
        yield advice, asked.command(layout=_a_server_each(asked))
    if asked.trains:
        yield from _larger_batch(asked)


def _larger_batch(asked: Asked) -> Iterator[tuple[str, str]]:
    if asked.trains:
        batch = asked.spec.batch * _LARGER
        yield "use a larger batch: less communication per example", asked.command(batch=batch)
    else:
        yield "use larger blocks: fewer transfers", ""


def _no_waiting(asked: Asked) -> Iterator[tuple[str, str]]:
    if not asked.trains:
        yield "give every host the same amount of work", ""
    elif command := asked.with_strategy(asked.strategy.asynchronous_counterpart):
        yield "try asynchronous updates", command


def _balance(suspect: Suspect, asked: Asked) -> Iterator[tuple[str, str]]:
    if suspect.because == "servers":
        for engine in asked.evenly_splitting_engines[:1]:
            advice = f"use engine {engine}, which splits the parameters evenly over the servers"
            yield advice, asked.command(engine=engine)
        yield "use one parameter server", asked.command(layout=asked.layout_with(servers=1))
        return
    if suspect.because == "quota":
        yield _even_cpus(asked)
    if suspect.because in ("contention", "exchange"):
        words = [word.replace("p", "") for word in asked.words]
        layout = " ".join(["p", *(word for word in words if word)])
        yield "put the parameter server on a separate host", asked.command(layout=layout)
    if command := asked.with_strategy(asked.strategy.synchronous_counterpart):
        yield "try synchronous updates, in which every worker has the same share", command


def _less_crowded(suspect: Suspect, asked: Asked) -> Iterator[tuple[str, str]]:
    if suspect.because == "others":
        yield "stop the other programs on this machine, or run again when it is idle", ""
        return
    if asked.layout.count("w") > 1:
        yield "use fewer workers on these cores", asked.command(layout=_one_worker_less(asked))
    if not suspect.where.startswith("the machine") and any(len(word) > 1 for word in asked.words):
        layout = " ".join(letter for word in asked.words for letter in word)
        yield "put each task on a separate host", asked.command(layout=layout)
    yield "use more cores", ""


def _one_more_worker(asked: Asked) -> Iterator[tuple[str, str]]:
    if not asked.strategy.single_worker:
        yield "add a worker", asked.command(layout=f"{asked.layout} w")
    elif several := asked.alternatives.get(asked.strategy.multi_worker_counterpart or ""):
        layout = "pw w" if several.has_servers else "w w"
        yield "split the work between two workers", asked.command(strategy=several.name, layout=layout)


def _more_cpus(asked: Asked) -> tuple[str, str]:
    return "allow the hosts more cores", asked.command(cpus=_times(str(asked.spec.cpus)))


def _even_cpus(asked: Asked) -> tuple[str, str]:
    shares = [word for word in str(asked.spec.cpus).split() if word != "-"]
    best = max(shares, key=float, default="1")
    return "allow every host the same number of cores", asked.command(cpus=best)


def _a_server_each(asked: Asked) -> str:
    return " ".join(word if "p" in word else f"p{word}" for word in asked.words)


def _one_worker_less(asked: Asked) -> str:
    kept = asked.layout[::-1].replace("w", "", 1)[::-1]
    return " ".join(kept.split())


def _longer(asked: Asked) -> list[str]:
    """The stop rules with steps, epochs and seconds multiplied by ten."""
    longer = []
    for rule in asked.spec.stop:
        kind, _, number = str(rule).partition("=")
        longer.append(f"{kind}={float(number) * 10:g}" if kind in ("steps", "epochs", "seconds") else str(rule))
    return longer


def _times(quantities: str) -> str:
    """Multiplies every number by 4: `100mbit -` -> `400mbit -`."""
    return _NUMBER.sub(lambda found: f"{float(found[0]) * _LARGER:g}", quantities)


def _ten_times(every: str) -> str:
    """`500` -> `5000`, `30s` -> `300s`."""
    interval = Interval.parse(every)
    return f"{10 * interval.value:g}{'s' if interval.unit == 'seconds' else ''}"
