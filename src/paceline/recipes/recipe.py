"""A recipe: what makes a table or figure of a published report again, and the figures that stood there.

A recipe is a spec file (which `paceline run` takes as it is) with one more table, `recipe`. The spec is the small form.
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
"""A figure as it was printed: a number, words, or a range from, to. "-" is none."""
Per = Literal["run", "worker", "host", "evaluation", "part"]
NONE = "-"


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What tells the rows apart."""

    name: str
    field: str
    words: Mapping[str, str] = {}
    """The report's words for our values."""


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was measured."""

    name: str
    field: str
    digits: int | None = None
    """Decimals; None is three significant digits."""


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sentence about two rows that are alike but for some keys, to be tested on our figures."""

    says: str
    figure: str
    of: Mapping[str, str]
    than: Mapping[str, str]
    is_: Literal["more", "less", "same"] = msgspec.field(name="is")
    within: float = 0.1
    """Share by which figures that are the same may differ."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    spec: Mapping[str, Any]
    title: str
    keys: tuple[Key, ...]
    figures: tuple[Column, ...]
    per: Per = "run"
    """What a row is about."""
    rows: tuple[tuple[Published, ...], ...] = ()
    """As published: the keys in the report's words, then the figures."""
    across: str | None = None
    """The key whose values stand at the head of the columns, with a row for each figure."""
    covers: tuple[str, ...] = ()
    """Further tables and figures of the report that the same runs and columns answer."""
    full: Mapping[str, Any] = {}
    """What the report's own size changes in the spec."""
    also: tuple[Mapping[str, Any], ...] = ()
    """Further experiments: what each changes in the spec, and under `full` what it changes in the full form."""
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    """Why our figures and theirs differ."""

    @property
    def report(self) -> str:
        return self.name.partition("-")[0]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *(f"{self.report}-{part}" for part in self.covers))

    def experiments(self, *, full: bool, changes: Mapping[str, Any] | None = None) -> list[Experiment]:
        """The spec, then what is there besides; `changes` are the user's own and come last."""
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
    """What of it no recipe makes, and why."""


@cache
def recipes() -> Mapping[str, Recipe]:
    """All recipes by name, in the order of the reports."""
    found = [_read(file.name.removesuffix(".toml"), file.read_bytes()) for file in _files() if "-" in file.name]
    return {recipe.name: recipe for recipe in sorted(found, key=lambda recipe: _order(recipe.name))}


@cache
def reports() -> Mapping[str, PublishedReport]:
    """report1 to report5, in our words."""
    (file,) = (file for file in _files() if file.name == "reports.toml")
    return msgspec.convert(tomllib.loads(file.read_text("utf-8")), dict[str, PublishedReport])


def find(name: str) -> list[Recipe]:
    """The recipe of that name, all of a report, or all."""
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
    """Tables before figures before the rest, each by number."""
    report, _, part = name.partition("-")
    word = part.rstrip("0123456789")
    rank = {"table": "0", "figure": "1"}.get(word, f"2{word}")
    return report, rank, int(part.removeprefix(word) or 0)
