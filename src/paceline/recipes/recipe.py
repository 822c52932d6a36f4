"""A recipe: the experiment that reproduces a table or figure of a published report, and the published values.

A recipe is a spec file for `paceline run` with an additional TOML table `recipe`. The spec is the small form, which
runs in minutes; `recipe.full` changes it to the published size.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

from paceline.errors import SpecError, unknown
from paceline.spec.experiment import Experiment
from paceline.spec.load import RECIPE, experiment

Published = float | str | tuple[float, float]
"""A value as it was printed: a number, text, or a range (from, to). "-" is no value."""
Per = Literal["run", "worker", "host", "evaluation", "time_bin"]
Picture = Literal["bars", "hosts", "learning", "steps_per_s"]
_PICTURES: Mapping[Per, tuple[Picture, ...]] = {
    "run": ("bars",),
    "worker": ("bars",),
    "host": ("bars", "hosts"),
    "evaluation": ("learning",),
    "time_bin": ("hosts", "steps_per_s"),
}
NONE = "-"


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key column of the table: rows differ in their keys."""

    name: str
    field: str
    labels: Mapping[str, str] = {}
    """The report's names for our values."""


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value column of the table."""

    name: str
    field: str
    digits: int | None = None
    """Digits after the decimal point; None is three significant digits."""


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding that a report states: the rows with the keys `of` have more, less or the same as those with `than`."""

    says: str
    column: str
    of: Mapping[str, str]
    than: Mapping[str, str]
    is_: Literal["more", "less", "same"] = msgspec.field(name="is")
    times: float = 1.0
    """The claim compares with this multiple of the other value: 3 for three times as many."""
    beyond: float = 0.02
    """Smallest relative difference that counts as more or less."""
    within: float = 0.1
    """Largest relative difference at which values count as the same; ours, since reports say only "similar"."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    spec: Mapping[str, Any]
    title: str
    keys: tuple[Key, ...]
    columns: tuple[Column, ...]
    per: Per = "run"
    """What a row describes."""
    rows: tuple[tuple[Published, ...], ...] = ()
    """As published: the keys with the report's names, then the values."""
    across: str | None = None
    """The key whose values are the column headings of the printed table, with one row per value column."""
    covers: tuple[str, ...] = ()
    """Further tables and figures of the report that the same runs and columns reproduce."""
    full: Mapping[str, Any] = {}
    """Settings of the published size that differ from the spec."""
    also: tuple[Mapping[str, Any], ...] = ()
    """Further experiments: the settings that differ from the spec, and under `full` those of the published size."""
    claims: tuple[Claim, ...] = ()
    """They need three runs of every row: repeats, or seeds where repeats of a run are exactly equal."""
    pictures: tuple[Picture, ...] = ()
    """The pictures that show it; empty: those that fit what a row describes."""
    log_network: bool = False
    """Whether the report shows network traffic on a logarithmic axis."""
    ours: tuple[str, ...] = ()
    """The options whose values the report does not state, so that they are chosen here."""
    notes: tuple[str, ...] = ()
    """Why our values and the published ones differ."""

    @property
    def figures(self) -> tuple[Picture, ...]:
        """The pictures to draw."""
        return self.pictures or _PICTURES[self.per]

    @property
    def report(self) -> str:
        return self.name.partition("-")[0]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *(f"{self.report}-{part}" for part in self.covers))

    def experiments(self, *, full: bool, changes: Mapping[str, Any] | None = None) -> list[Experiment]:
        """The spec, then the further experiments; `changes` are the user's and override everything."""
        parts = []
        for part in ({}, *self.also):
            own = dict(part)
            own_full = own.pop("full", {})
            sized = {**self.full, **own, **own_full} if full else own
            parts.append(experiment({**self.spec, **sized, **(changes or {})}))
        return parts


class PublishedReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    machines: str
    left_out: str = ""
    """What no recipe reproduces, and why."""


@cache
def recipes() -> Mapping[str, Recipe]:
    """All recipes by name, in the order of the reports."""
    found = [_read(file.name.removesuffix(".toml"), file.read_bytes()) for file in _files() if "-" in file.name]
    return {recipe.name: recipe for recipe in sorted(found, key=lambda recipe: _order(recipe.name))}


@cache
def reports() -> Mapping[str, PublishedReport]:
    """By name: report1 to report5."""
    (file,) = (file for file in _files() if file.name == "reports.toml")
    return msgspec.convert(tomllib.loads(file.read_text("utf-8")), dict[str, PublishedReport])


def find(name: str) -> list[Recipe]:
    """The recipe of that name, all recipes of a report, or all."""
    known = list(recipes().values())
    found = [recipe for recipe in known if name in recipe.names or name in (recipe.report, "all")]
    if not found:
        raise SpecError(unknown("recipe", name, [each for recipe in known for each in recipe.names]))
    return found


def _read(name: str, text: bytes) -> Recipe:
    spec = tomllib.loads(text.decode())
    about = spec.pop(RECIPE)
    return msgspec.convert({"name": name, "spec": spec, **about}, Recipe)


def _files() -> list[Any]:
    return [file for file in files("paceline.recipes").iterdir() if file.name.endswith(".toml")]


def _order(name: str) -> tuple[str, str, int]:
    """Sort key: tables before figures before the rest, each by number."""
    report, _, part = name.partition("-")
    word = part.rstrip("0123456789")
    rank = {"table": "0", "figure": "1"}.get(word, f"2{word}")
    return report, rank, int(part.removeprefix(word) or 0)
