"""What a field of the spec means to a user, declared once, beside the field.

The flags of the command line, the reading of TOML files and keyword arguments, the axes of a sweep, the signature of
`paceline.run` and docs/options.md are all made from these declarations.
"""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

LARGEST_INTEGER = 2**53
"""Larger whole numbers lose digits in JSON and in tables of floats."""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a field: `batch: Annotated[int, Option(help="...", least=1)] = 100`."""

    help: str
    cli: Literal["argument", "flag", "set"] = "set"
    """How the command line takes it: as an argument, as `--batch 100`, or only as `--set lr=0.1`."""
    axis: bool = True
    """Whether a list of values makes a sweep."""
    unit: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    unset: str = ""
    """What the default None stands for."""
    accepts: Any = None
    """The type of one value in Python, where it is wider than the field's type."""
    parse: Callable[[Any], object] | None = None
    """Turns what the user gave into something that converts to the field's type."""
    check: Callable[[Any], object] | None = None
    """Raises SpecError for a value that is not allowed."""

    name: str = ""
    """This and what follows is the field's own; `options_of` fills it in."""
    type_: Any = None
    required: bool = False
    default: Any = None

    @property
    def label(self) -> str:
        """The name in messages: as the flag is written, if there is one."""
        return self.name.replace("_", "-") if self.cli == "flag" else self.name

    @property
    def optional(self) -> bool:
        return type(None) in get_args(self.type_)

    @property
    def base_type(self) -> Any:
        """The type of a value that is not None."""
        kinds = [kind for kind in get_args(self.type_) if kind is not type(None)]
        return kinds[0] if self.optional else self.type_

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
        """What values there may be, as words that follow `must be`; empty if any value of the type will do."""
        if self.choices:
            return " or ".join(self.choices)
        start = None if self.least is None else f"{self.least:,}"
        if self.most is not None:
            return f"from {start} to {self.most:,}" if start else f"at most {self.most:,}"
        if self.below is not None:
            return f"from {start} to below {self.below:,}" if start else f"below {self.below:,}"
        if self.above is not None:
            return f"above {self.above:,} and finite"
        return f"{start} or more" if start else ""

    def within_bounds(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and -math.inf < value < math.inf
        )


def options_of(struct: type[msgspec.Struct]) -> Mapping[str, Option]:
    """The options that the fields of a struct declare, by name, in the order of the fields."""
    found = {}
    for field in msgspec.structs.fields(struct):
        if get_origin(field.type) is Annotated:
            type_, *metadata = get_args(field.type)
            (option,) = (each for each in metadata if isinstance(each, Option))
            own = {"name": field.name, "type_": type_, "required": field.required}
            own |= {} if field.required else {"default": field.default}
            found[field.name] = msgspec.structs.replace(option, **own)
    return found
