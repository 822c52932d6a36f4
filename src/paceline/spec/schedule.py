"""The learning rate over time, as a factor that depends only on the number of the update."""

import math
from collections.abc import Collection
from typing import Literal

import msgspec

from paceline.errors import SpecError, unknown

Shape = Literal["constant", "step", "cosine", "linear"]
_SETTINGS = {
    "constant": ("warmup",),
    "step": ("warmup", "every", "factor"),
    "cosine": ("warmup", "updates", "floor"),
    "linear": ("warmup", "updates", "floor"),
}
"""The settings of each schedule."""
SHAPES = tuple(_SETTINGS)
_COUNTS = ("warmup", "every", "updates")
_MOST_UPDATES = 10**12


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """The factor of the learning rate for each update. During a warm-up it grows from 1/warmup to 1."""

    shape: Shape = "constant"
    warmup: int = 0
    """The number of updates in which the learning rate grows linearly."""
    every: int = 0
    """step: the number of updates after which the rate is multiplied by `factor`, again and again."""
    factor: float = 0.1
    updates: int = 0
    """cosine, linear: the number of updates, with the warm-up, in which the rate falls to `floor`; 0: as many as the
    run makes."""
    floor: float = 0.0
    """cosine, linear: the factor at the end."""

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """Read `cosine:warmup=100:updates=2000:floor=0.1`, `step:every=1000:factor=0.5` or `constant:warmup=100`."""
        shape, _, rest = text.partition(":")
        if shape not in _SETTINGS:
            raise SpecError(unknown("schedule", shape, SHAPES))
        label = f"schedule '{text}'"
        numbers = read_pairs(label, rest, _SETTINGS[shape]) if ":" in text else {}
        for name in _COUNTS:
            value = numbers.get(name, 0.0)
            if not value.is_integer() or value > _MOST_UPDATES or (name in numbers and value < 1):
                raise SpecError(f"{label}: {name} must be a number of updates, 1 or more")
        if shape == "step" and "every" not in numbers:
            raise SpecError(
                f"{label}: every is missing: give the number of updates between steps, e.g. step:every=1000"
            )
        warmup, updates = int(numbers.get("warmup", 0)), int(numbers.get("updates", 0))
        if updates and warmup >= updates:
            raise SpecError(f"{label}: warmup must be below updates, which includes it")
        return cls(
            shape=shape,  # type: ignore[arg-type]
            warmup=warmup,
            every=int(numbers.get("every", 0)),
            factor=numbers.get("factor", 0.1),
            updates=updates,
            floor=numbers.get("floor", 0.0),
        )

    @property
    def is_constant(self) -> bool:
        return self.shape == "constant" and not self.warmup

    @property
    def needs_end(self) -> bool:
        """Whether the factor depends on the number of updates of the run, which is not given."""
        return self.shape in ("cosine", "linear") and not self.updates

    def ending_at(self, last_update: int | None) -> "Schedule":
        """The schedule of a run with that many updates; SpecError if it needs their number and nobody knows it."""
        if not self.needs_end:
            return self
        if last_update is None:
            raise SpecError(
                f"schedule '{self.shape}' must know its number of updates: write {self.shape}:updates=N, or stop at "
                "steps=N or epochs=N"
            )
        if self.warmup >= last_update:
            raise SpecError(
                f"schedule: a warmup of {self.warmup} updates is not below the {last_update} of the run: lower it"
            )
        return msgspec.structs.replace(self, updates=last_update)

    def at(self, update: int) -> float:
        """The factor of the learning rate of the next update, after `update` updates."""
        if update < self.warmup:
            return (update + 1) / self.warmup
        if self.shape == "constant":
            return 1.0
        if self.shape == "step":
            return float(self.factor ** (update // self.every))
        fraction = min(1.0, (update - self.warmup) / max(1, self.updates - self.warmup))
        falling = (1 + math.cos(math.pi * fraction)) / 2 if self.shape == "cosine" else 1 - fraction
        return self.floor + (1 - self.floor) * falling


def read_pairs(label: str, text: str, known: Collection[str]) -> dict[str, float]:
    """The numbers of `name=value:name=value`; SpecError if a name is not known or a value no number from 0 on."""
    numbers: dict[str, float] = {}
    for pair in text.split(":"):
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise SpecError(f"{label}: '{pair}' must be name=number; separate several with ':'")
        if name not in known:
            raise SpecError(f"{label}: {unknown('setting', name, list(known))}")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or number < 0:
            raise SpecError(f"{label}: {name} must be a number, 0 or more")
        numbers[name] = number
    return numbers
