"""Turn the fields of flags, TOML files or keyword arguments into an `Experiment`, and check each value."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from paceline.errors import SpecError, unknown
from paceline.spec.experiment import AXES, OPTIONS, RUN_OPTIONS, Experiment
from paceline.spec.option import LARGEST_INTEGER, Option
from paceline.spec.run_options import RunSpec
from paceline.spec.script import ENGINE, STRATEGY, check_parameters, target

RECIPE = "recipe"
"""The table of a spec file that holds published figures to compare with; it sets no option of a run."""
_MAX_FILE_BYTES = 2**20
"""Far above any spec file; guards against reading, say, a data set into memory."""
_OF_EVERY_RUN = ("sample_hz", "record")
"""Options without a flag that apply to scripts as well."""
_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def experiment(fields: Mapping[str, Any]) -> Experiment:
    """The experiment that these fields describe. A field is a value or a list; text is read as on the command line."""
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in OPTIONS:
            raise SpecError(unknown("option", name, OPTIONS))
        values[name] = _read(OPTIONS[name], value)
    if values.get("script"):
        _complete_script(values)
    elif "param" in values and values["param"] != (None,):
        raise SpecError("param is for a script: give the option script too, or use paceline launch")
    else:
        _split_sizes(values)
    if "workload" not in values:
        raise SpecError("no workload is given: name one, e.g. logreg (`paceline workloads` lists them)")
    lists = {name: values.pop(name) for name in AXES if name in values}
    first = {name: items[0] for name, items in lists.items()}
    first |= {name: values.pop(name) for name in RUN_OPTIONS if name in values}
    axes = {name: items for name, items in lists.items() if len(items) > 1}
    return Experiment(run=RunSpec(**first), axes=axes, given=frozenset(fields), **values)


def load_toml(path: Path) -> dict[str, Any]:
    """The fields of a spec file, without its recipe table."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise SpecError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > _MAX_FILE_BYTES:
        raise SpecError(
            f"{path} is not a spec file: it has more than {_MAX_FILE_BYTES:,} bytes; name a TOML file of options"
        )
    try:
        fields = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        # ValueError also for a number with thousands of digits, RecursionError for deeply nested lists.
        raise SpecError(f"{path} is not valid TOML: {error}") from None
    fields.pop(RECIPE, None)
    return fields


def split_list(text: str) -> list[str]:
    """The parts between commas: `a, b` -> ["a", "b"]. An empty part is an error: it is always a typing mistake."""
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise SpecError(f"list '{text}' has an empty item: separate the values with single commas, e.g. 1,2,3")
    return items


def parse_assignments(pairs: Sequence[str]) -> dict[str, str]:
    """The fields that `--set name=value` options give."""
    fields = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not value:
            raise SpecError(f"--set '{pair}' has no value: write --set name=value, e.g. --set lr=0.1")
        fields[name.strip()] = value
    for name in fields:
        if name not in AXES:
            raise SpecError(unknown("option", name, AXES))
    return fields


def _read(option: Option, value: Any) -> Any:
    """The value converted to the option's type; a tuple of such values if the option may be a list."""
    if not option.axis:
        return _read_one(option, value)
    return tuple(_read_one(option, item) for item in _items(option, value))


def _items(option: Option, value: Any) -> Sequence[Any]:
    if isinstance(value, str):
        return option.split(split_list(value))
    items = value if isinstance(value, Sequence) and not isinstance(value, bytes) else [value]
    if not items:
        raise SpecError(f"{option.label}: the list of values is empty: give at least one value")
    return items


def _read_one(option: Option, given: Any) -> Any:
    try:
        parsed = option.parse(given) if option.parse else given
        value = msgspec.convert(parsed, option.type_, strict=False)
    except OverflowError:
        raise SpecError(f"{option.label}: the number is too large: must be at most {LARGEST_INTEGER:,}") from None
    except msgspec.ValidationError:
        raise SpecError(
            f"{option.label} {_quoted(given)}: must be {_TYPE_NAMES.get(option.base_type, 'a list')}"
        ) from None
    if value is None:
        return None
    if option.choices and value not in option.choices:
        raise SpecError(unknown(option.label, value, option.choices))
    if option.base_type in (int, float):
        _check_bounds(option, value)
    if option.check:
        option.check(value)
    return value


def _check_bounds(option: Option, value: float) -> None:
    if not option.within_bounds(value):
        raise SpecError(f"{option.label} {_quoted(value)}: must be {option.allowed}")
    if option.base_type is int and value > LARGEST_INTEGER:
        raise SpecError(f"{option.label} {_quoted(value)}: must be at most {LARGEST_INTEGER:,}")


def _quoted(value: object) -> str:
    """The value as it appears in a message. Python refuses to print integers with thousands of digits."""
    try:
        return f"'{value}'" if isinstance(value, str) else repr(value)
    except ValueError:
        return "(a number with too many digits)"


def _complete_script(values: dict[str, Any]) -> None:
    """Fill in what a script decides for all its runs, and refuse options that cannot apply to a script."""
    argv = values["script"]
    decided = {"workload": (target(argv),), "engine": (ENGINE,), "strategy": (STRATEGY,)}
    for name, value in values.items():
        option = OPTIONS[name]
        wanted = decided.get(name, (option.default,) if option.axis else option.default)
        if value != wanted and not (option.launch or option.cli == "launch" or name in _OF_EVERY_RUN):
            raise SpecError(f"{option.label} does not apply to a script: remove it, or pass it to the script itself")
    for text in values.get("param", ()):
        check_parameters(argv, text or "")
    values |= decided
    # A script ends by itself, so it needs no stop rule.
    values.setdefault("stop", ())


def _split_sizes(values: dict[str, Any]) -> None:
    """Split `alexnet:cifar` into a workload and its size; a user's `package.module:name` stays whole."""
    parts = [name.partition(":") for name in values.get("workload", ())]
    sizes = tuple(size for _, colon, size in parts if colon)
    if not sizes or any("." in name or "/" in name for name, _, _ in parts):
        return
    if values.get("size", (None,)) != (None,):
        raise SpecError(f"the size is given twice, in '{parts[0][0]}:{sizes[0]}' and as the option size: give it once")
    names = tuple(dict.fromkeys(name for name, _, _ in parts))
    if len(names) > 1 or len(sizes) < len(parts):
        raise SpecError(
            "workloads with sizes: the list must be of one workload, each with a size, e.g. a:small,a:large"
        )
    values["workload"], values["size"] = names, sizes
