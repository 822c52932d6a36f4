"""`Option`: the help text, limits, unit and flag of a spec field, declared once beside the field.

The flags of the command line, the reading of TOML files and keyword arguments, the axes of a sweep, the signature of
`paceline.run` and docs/options.md are all made from these declarations.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

LARGEST_INTEGER = 2**53
"""Larger integers are not exact as floats, which JSON readers and tables use."""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a field: `batch: Annotated[int, Option(help="...", minimum=1)] = 100`."""

    help: str
    cli: Literal["argument", "flag", "set", "launch"] = "set"
    """How `paceline run` takes it: as an argument, as `--batch 100`, or only as `--set lr=0.1`; `launch`: not at all,
    because it is about a user's script, which `paceline launch` starts."""
    launch: bool = False
    """Whether it also applies to a user's script, so that `paceline launch` has a flag for it."""
    axis: bool = True
    """Whether a list of values makes a sweep."""
    identifies: bool = True
    """Whether runs with different values are different runs, which are made and compared separately."""
    added: bool = False
    """Whether the option is newer than the first release. Its default is then not part of the key of a run, so that a
    sweep recognizes the runs that an earlier version made."""
    unit: str = ""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    """An exclusive minimum."""
    below: float | None = None
    """An exclusive maximum."""
    unset: str = ""
    """What happens if the default is None and no value is given."""
    accepts: Any = None
    """The type that `paceline.run` accepts for one value, if it is wider than the field's type."""
    parse: Callable[[Any], object] | None = None
    """Prepares the user's value for conversion to the field's type."""
    check: Callable[[Any], object] | None = None
    """Raises SpecError for a value that is not allowed."""
    split: Callable[[Sequence[str]], Sequence[str]] = tuple
    """Makes the values of a list from its comma-separated parts, if a comma may also be inside of a value."""

    name: str = ""
    """Name of the field. `options_of` fills in this and the following attributes from the field."""
    type_: Any = None
    required: bool = False
    default: Any = None

    @property
    def label(self) -> str:
        """The name in messages: with hyphens, as in the flag, if there is a flag."""
        return self.name.replace("_", "-") if self.cli in ("flag", "launch") else self.name

    @property
    def optional(self) -> bool:
        return type(None) in get_args(self.type_)

    @property
    def base_type(self) -> Any:
        """The type of a value that is not None."""
        types = [type_ for type_ in get_args(self.type_) if type_ is not type(None)]
        return types[0] if self.optional else self.type_

    @property
    def repeatable(self) -> bool:
        """Whether its flag may be given several times: all values then belong to the same run."""
        return get_origin(self.base_type) is tuple

    @property
    def default_text(self) -> str:
        """The default as a user would write it, or what happens without a value."""
        if self.default is None:
            return self.unset
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, tuple):
            return ", ".join(map(str, self.default))
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    @property
    def allowed(self) -> str:
        """The allowed values, as text to follow `must be`; empty if every value of the type is allowed."""
        if self.choices:
            return " or ".join(self.choices)
        start = None if self.minimum is None else f"{self.minimum:,}"
        if self.maximum is not None:
            return f"from {start} to {self.maximum:,}" if start else f"at most {self.maximum:,}"
        if self.below is not None:
            return f"from {start} to below {self.below:,}" if start else f"below {self.below:,}"
        if self.above is not None:
            return f"above {self.above:,} and finite"
        return f"{start} or more" if start else ""

    def within_bounds(self, value: float) -> bool:
        return (
            (self.minimum is None or value >= self.minimum)
            and (self.maximum is None or value <= self.maximum)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and -math.inf < value < math.inf
        )


def options_of(struct: type[msgspec.Struct]) -> Mapping[str, Option]:
    """The options that the fields of a struct declare, by name, in the order of the fields."""
    options = {}
    for field in msgspec.structs.fields(struct):
        if get_origin(field.type) is Annotated:
            type_, *metadata = get_args(field.type)
            (option,) = (item for item in metadata if isinstance(item, Option))
            attributes = {"name": field.name, "type_": type_, "required": field.required}
            attributes |= {} if field.required else {"default": field.default}
            options[field.name] = msgspec.structs.replace(option, **attributes)
    return options
