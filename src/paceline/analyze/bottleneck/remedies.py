"""What to change, as commands: each differs from the run that was judged in the one thing that may help."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from paceline.analyze.bottleneck.suspects import Suspect
from paceline.spec.interval import Interval

_FLAGS = (
    "size", "examples", "engine", "strategy", "layout", "batch", "eval_every", "checkpoint_every", "hosts", "link",
    "latency", "cpus",
)  # fmt: skip
_SETTINGS = ("lr", "momentum", "threads", "transport", "eval_examples", "trace_every")
_LARGER = 4
_NUMBER = re.compile(r"\d+(\.\d+)?")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the run was told to do."""

    spec: Mapping[str, Any]
    layout: str
    trains: bool = True
    crowded: bool = False
    """Whether all hosts share one machine."""

    @property
    def words(self) -> list[str]:
        return self.layout.split()

    def command(self, **changes: Any) -> str:
        """The command for the same run with something else."""
        spec = {**self.spec, "layout": self.layout, **changes}
        parts = ["paceline", "run", str(spec.get("workload"))]
        for name in _FLAGS:
            if spec.get(name) is not None and not (name == "batch" and not self.trains):
                parts += [f"--{name.replace('_', '-')}", str(spec[name])]
        for rule in spec.get("stop", []):
            parts += ["--stop", str(rule)]
        for name in _SETTINGS:
            if spec.get(name) is not None:
                parts += ["--set", f"{name}={spec[name]}"]
        return shlex.join(parts)


def remedies(suspect: Suspect, asked: Asked) -> list[str]:
    """The best first; each says what it does, then how."""
    return [f"{what}: {how}" if how else what for what, how in _of(suspect, asked)]


def _of(suspect: Suspect, asked: Asked) -> Iterator[tuple[str, str]]:
    match suspect.cause:
        case "compute":
            if suspect.because == "quota":
                yield _more_cpus(asked)
            yield _one_more_worker(asked)
            if asked.crowded:
                yield "or run on more or faster cores: communication is not what holds this back", ""
        case "network":
            yield from _less_to_send(asked)
            link = asked.spec.get("link")
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
            every = (asked.spec.get("eval_every") or 100) * 10
            yield "evaluate less often", asked.command(eval_every=every)
        case "checkpoint":
            every = _ten_times(str(asked.spec.get("checkpoint_every") or 100))
            yield "write checkpoints less often", asked.command(checkpoint_every=every)


def _less_to_send(asked: Asked) -> Iterator[tuple[str, str]]:
    spec = asked.spec
    if not asked.trains:
        yield "have together what is used together", asked.command(size="colocated")
    elif spec.get("workload") == "sparse-logreg" and spec.get("size") == "dense":
        yield "move only the weights that a batch touches", asked.command(size="sparse")
    elif spec.get("strategy") in ("ps-sync", "ps-async") and asked.layout.count("p") < len(asked.words):
        yield "a server on every host, so that no link carries it all", asked.command(layout=_a_server_each(asked))
    if asked.trains:
        yield from _larger_batch(asked)


def _larger_batch(asked: Asked) -> Iterator[tuple[str, str]]:
    if asked.trains:
        batch = int(asked.spec.get("batch", 100)) * _LARGER
        yield "more examples a step, so that there are fewer steps to pay for", asked.command(batch=batch)
    else:
        yield "larger blocks, so that there are fewer of them to move", ""


def _no_waiting(asked: Asked) -> Iterator[tuple[str, str]]:
    if not asked.trains:
        yield "give all hosts the same to do", ""
    elif asked.spec.get("strategy") == "ps-sync":
        yield "let workers not wait for each other", asked.command(strategy="ps-async")
    else:
        words = asked.words if "p" in asked.layout else [f"p{asked.words[0]}", *asked.words[1:]]
        yield "let workers not wait for each other", asked.command(strategy="ps-async", layout=" ".join(words))


def _balance(suspect: Suspect, asked: Asked) -> Iterator[tuple[str, str]]:
    if suspect.because == "servers":
        if asked.spec.get("engine") == "tensorflow":
            yield "cut the parameters evenly over the servers, as the other engine does", asked.command(engine="torch")
        yield "or one server", asked.command(layout=_one_server(asked))
        return
    if suspect.because == "quota":
        yield _even_cpus(asked)
    if suspect.because in ("contention", "exchange"):
        words = [word.replace("p", "") for word in asked.words]
        yield "a host of its own for the server", asked.command(layout=" ".join(["p", *(w for w in words if w)]))
    yield "let every update be the mean of all workers", asked.command(strategy="ps-sync")


def _less_crowded(suspect: Suspect, asked: Asked) -> Iterator[tuple[str, str]]:
    if suspect.because == "others":
        yield "other programs use the machine's cores: end them, or wait", ""
        return
    if asked.layout.count("w") > 1:
        yield "fewer workers on these cores", asked.command(layout=_one_worker_less(asked))
    if not suspect.where.startswith("the machine") and any(len(word) > 1 for word in asked.words):
        yield "a host for each task", asked.command(layout=" ".join(letter for word in asked.words for letter in word))
    yield "or more cores", ""


def _one_more_worker(asked: Asked) -> tuple[str, str]:
    if asked.spec.get("strategy") == "single":
        return "share the work among two", asked.command(strategy="ps-sync", layout="pw w")
    return "one more worker", asked.command(layout=f"{asked.layout} w")


def _more_cpus(asked: Asked) -> tuple[str, str]:
    return "let the hosts use more cores", asked.command(cpus=_times(str(asked.spec.get("cpus"))))


def _even_cpus(asked: Asked) -> tuple[str, str]:
    shares = [word for word in str(asked.spec.get("cpus")).split() if word != "-"]
    best = max(shares, key=float, default="1")
    return "give every host the same", asked.command(cpus=best)


def _a_server_each(asked: Asked) -> str:
    return " ".join(word if "p" in word else f"p{word}" for word in asked.words)


def _one_server(asked: Asked) -> str:
    words = [word.replace("p", "") for word in asked.words]
    return " ".join(word for word in [f"p{words[0]}", *words[1:]] if word)


def _one_worker_less(asked: Asked) -> str:
    kept = asked.layout[::-1].replace("w", "", 1)[::-1]
    return " ".join(kept.split())


def _longer(asked: Asked) -> list[str]:
    """The same rules, ten times as far where they count."""
    longer = []
    for rule in asked.spec.get("stop", []):
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
