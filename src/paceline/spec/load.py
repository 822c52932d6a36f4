"""Flags, TOML and keyword arguments become the same Experiment, checked field by field."""

import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from paceline import units
from paceline.errors import SpecError, unknown
from paceline.spec.experiment import AXES, Experiment
from paceline.spec.fault import Fault, parse_faults
from paceline.spec.interval import Interval
from paceline.spec.stop import StopRule, parse_rules

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
TRANSPORTS = ("memory", "tcp")
ON_FAILURE = ("fail", "restart")
RECIPE = "recipe"
"""The table of a spec file that says which published figures its runs stand beside; it asks for nothing."""
_FIELDS = Experiment.__struct_fields__
_MOST = 2**53
"""Larger whole numbers are no longer told apart by everything they pass through."""
_MOST_THREADS = 4096
_LARGEST_FILE = 2**20


def experiment(fields: Mapping[str, Any]) -> Experiment:
    """The typed request; any field may be a single value or a list, text is read as a flag would be."""
    values: dict[str, Any] = {}
    for key, value in fields.items():
        if key not in _FIELDS:
            raise SpecError(unknown("field", key, _FIELDS))
        values[key] = _READ[key](value) if key in _READ else _axis(value) if key in AXES else value
    for field in ("cpus", "checkpoint_every"):  # Numbers, or text with a number in it.
        values |= {field: [_as_text(field, one) for one in values.get(field, [None])]}
    _split_sizes(values)
    if not values.get("workload"):
        raise SpecError("no workload: say which, e.g. paceline run logreg")
    try:
        made = msgspec.convert(values, Experiment, strict=False)
    except msgspec.ValidationError as error:
        raise SpecError(_readable(error)) from None
    _check(made)
    return made


def load_toml(path: Path) -> dict[str, Any]:
    """The fields of a spec file."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        raise SpecError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > _LARGEST_FILE:
        raise SpecError(f"{path} is no spec file: it has more than {_LARGEST_FILE:,} bytes")
    try:
        fields = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, a list in a list in a list …
        raise SpecError(f"{path} is not valid TOML: {error}") from None
    fields.pop(RECIPE, None)
    return fields


def split_list(text: str) -> list[str]:
    """`a, b` -> ["a", "b"]; an empty item is an error, since it is always a slip."""
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise SpecError(f"list '{text}' has an empty item: separate values by single commas")
    return items


def assignments(pairs: Sequence[str]) -> dict[str, list[str]]:
    """`--set key=value` pairs as fields."""
    fields = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not value:
            raise SpecError(f"--set '{pair}' is not understood: write --set key=value")
        fields[key.strip()] = split_list(value)
    for key in fields:
        if key not in AXES:
            raise SpecError(unknown("field", key, AXES))
    return fields


def _as_text(field: str, value: Any) -> Any:
    try:
        return f"{value:.15g}" if isinstance(value, int | float) else value
    except OverflowError:
        raise SpecError(f"{field}: the number is too large") from None


def _split_sizes(values: dict[str, Any]) -> None:
    """`alexnet:cifar` is a workload and its size."""
    parts = [str(name).partition(":") for name in values.get("workload", [])]
    sizes = [size for _, colon, size in parts if colon]
    if not sizes or any("." in name or "/" in name for name, _, _ in parts):
        return
    if "size" in values:
        raise SpecError(f"the size is given twice: as {parts[0][0]}:{sizes[0]} and as a field of its own")
    names = list(dict.fromkeys(name for name, _, _ in parts))
    if len(names) > 1 or len(sizes) < len(parts):
        raise SpecError("a list of workloads with sizes must be of one workload, each with its size: a:small,a:large")
    values["workload"], values["size"] = names, sizes


def _axis(value: Any) -> list[Any]:
    if isinstance(value, str):
        return split_list(value)
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not items:
        raise SpecError("a list of values is empty: give at least one")
    return items


def _stop(value: Any) -> tuple[StopRule, ...]:
    if isinstance(value, Mapping):
        value = [f"{kind}={number}" for kind, number in value.items()]
    rules = value if isinstance(value, (list, tuple)) else [value]
    if not rules:
        raise SpecError("no stop rule: give at least one, e.g. steps=2000")
    return tuple(rule.checked() if isinstance(rule, StopRule) else parse_rules([str(rule)])[0] for rule in rules)


def _faults(value: Any) -> tuple[Fault, ...]:
    faults = value if isinstance(value, (list, tuple)) else [value]
    # Written down and read again: one that was made in Python is checked as any other.
    return parse_faults([str(fault) for fault in faults])


_READ: Mapping[str, Callable[[Any], object]] = {"stop": _stop, "fault": _faults}


def _readable(error: msgspec.ValidationError) -> str:
    """msgspec's `Expected `int`, got `str` - at `$.batch[0]`` in our words."""
    text = str(error).replace("`", "")
    problem, _, place = text.partition(" - at $.")
    field = place.split("[")[0] if place else "the spec"
    return f"{field}: {problem[:1].lower()}{problem[1:]}"


def _check(made: Experiment) -> None:
    _whole_and_positive("batch", made.batch)
    _whole_and_positive("examples", made.examples)
    _whole_and_positive("eval-every", made.eval_every)
    _whole_and_positive("eval_examples", made.eval_examples)
    _whole_and_positive("checkpoint_keep", made.checkpoint_keep)
    for every in made.checkpoint_every:
        if every is not None:
            Interval.parse(every)
    for choice in made.on_failure:
        if choice not in (None, *ON_FAILURE):
            raise SpecError(unknown("on-failure", choice, ON_FAILURE))
    for backup in made.backup:
        if backup < 0:
            raise SpecError(f"backup {backup}: must be 0 (wait for all workers) or more")
    for restarts in made.restarts:
        if not 0 <= restarts <= 1000:
            raise SpecError(f"restarts {restarts}: must be from 0 to 1000")
    _whole_and_positive("threads", made.threads)
    _whole_and_positive("repeat", (made.repeat,))
    for threads in made.threads:
        if threads is not None and threads > _MOST_THREADS:
            raise SpecError(f"threads {threads}: must be at most {_MOST_THREADS:,}")
    for seed in made.seed:
        if not 0 <= seed < 2**31:
            raise SpecError(f"seed {seed}: must be from 0 to {2**31 - 1}")
    for lr in made.lr:
        if lr is not None and not 0 < lr < math.inf:
            raise SpecError(f"lr {lr}: must be above 0 and finite")
    for momentum in made.momentum:
        if momentum is not None and not 0 <= momentum < 1:
            raise SpecError(f"momentum {momentum}: must be from 0 to below 1")
    for transport in made.transport:
        if transport not in (None, *TRANSPORTS):
            raise SpecError(unknown("transport", transport, TRANSPORTS))
    for hz in made.sample_hz:
        if not 0.1 <= hz <= 100:
            raise SpecError(f"sample_hz {hz}: must be from 0.1 to 100")
    for steps in made.trace_every:
        if steps is not None and not 0 <= steps <= _MOST:
            raise SpecError(f"trace_every {steps}: must be 0 (never) or more")
    _each_word("link", made.link, units.bits_per_second)
    _each_word("latency", made.latency, units.delay)
    _each_word("cpus", made.cpus, units.cpus)
    if not made.runs:
        raise SpecError("the runs directory has no name: say where with --runs, or leave it out")
    if made.name == "latest":
        raise SpecError("name 'latest' means the newest run: choose another")
    if made.name is not None and not NAME.fullmatch(made.name):
        raise SpecError(f"name '{made.name}': use 1 to 48 of a-z, 0-9 and '-', starting with a letter or digit")


def _each_word(field: str, values: Sequence[str | None], read: Callable[[str], object]) -> None:
    for value in values:
        words = [] if value is None else value.split()
        if value is not None and not words:
            raise SpecError(f"{field} is empty: give a value, or leave it out")
        for word in words:
            if word != "-":
                read(word)


def _whole_and_positive(field: str, values: Sequence[int | None]) -> None:
    for value in values:
        if value is not None and value < 1:
            raise SpecError(f"{field} {value}: must be 1 or more")
        if value is not None and value > _MOST:
            raise SpecError(f"{field} {value}: must be at most {_MOST:,}")
