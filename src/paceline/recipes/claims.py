"""Tests the claims of a report on our values: does each hold here, does it not, or can these runs not tell?

A claim is about pairs of rows. Each pair is compared as `paceline compare` does it: by the ratio of the medians over
the repeats, with its 95 % confidence interval. A claim holds if it holds for every pair, and it does not hold if one
pair contradicts it. Otherwise the runs cannot tell: there are too few repeats, or they vary too much.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from paceline.analyze.ratio import Ratio, ratio_of_medians
from paceline.present.thresholds import ENOUGH_REPEATS
from paceline.recipes.observe import DEPENDS_ON_PROGRESS, DEPENDS_ON_WORK
from paceline.recipes.recipe import Claim, Recipe
from paceline.spec.experiment import Experiment
from paceline.spec.stop import StopRule

Outcome = Literal["holds", "does not hold", "cannot tell here", "not tested"]
Values = tuple[float, ...]
"""One value per run."""
RowValues = Mapping[tuple[str, ...], Sequence[Values]]
"""The keys of a row -> for each column the values of the runs."""


class CheckedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A published claim, tested on our values."""

    says: str
    outcome: Outcome
    why: str = ""
    """Why the claim was not tested, or why these runs cannot tell."""
    pairs: tuple[Ratio, ...] = ()
    """For each pair of rows that it is about, our ratio."""
    contradicted: int = 0
    """The number of pairs that contradict it."""

    @property
    def holds(self) -> bool | None:
        return {"holds": True, "does not hold": False}.get(self.outcome)


def check_claims(recipe: Recipe, values: RowValues, untested: Mapping[str, str]) -> tuple[CheckedClaim, ...]:
    """`untested`: field of a column -> why these runs test no claim about it."""
    names = [key.name for key in recipe.keys]
    rows = [(dict(zip(names, keys, strict=True)), row) for keys, row in values.items()]
    return tuple(_check(claim, recipe, rows, untested) for claim in recipe.claims)


def fields_without_test(
    ours: Sequence[Experiment], published: Sequence[Experiment], columns: set[str]
) -> dict[str, str]:
    """The fields about which runs with changed stop rules test no claim, each with the reason.

    With a rule of another kind, runs end in another state, and nothing can be compared with the report. Another number
    in the same rule leaves rates, loads and, for the same amount of work, times comparable, but not how far a run came.
    """
    for own, full in zip(ours, published, strict=True):
        if own.run.stop == full.run.stop:
            continue
        why = f"the stop rule is {_rules(own.run.stop)} instead of {_rules(full.run.stop)}"
        if [rule.kind for rule in own.run.stop] != [rule.kind for rule in full.run.stop]:
            return dict.fromkeys(columns, why)
        fixed_work = all(rule.kind in ("steps", "epochs") for rule in own.run.stop)
        return dict.fromkeys(DEPENDS_ON_PROGRESS | (frozenset() if fixed_work else DEPENDS_ON_WORK), why)
    return {}


def _rules(rules: Sequence[StopRule]) -> str:
    return " ".join(map(str, rules))


def _check(
    claim: Claim, recipe: Recipe, rows: Sequence[tuple[dict[str, str], Sequence[Values]]], untested: Mapping[str, str]
) -> CheckedClaim:
    number, column = next((i, column) for i, column in enumerate(recipe.columns) if column.name == claim.column)
    if column.field in untested:
        return CheckedClaim(says=claim.says, outcome="not tested", why=untested[column.field])
    compared = [(own[number], other[number]) for own, other in _pairs(claim, rows)]
    ratios = [ratio for own, other in compared if (ratio := ratio_of_medians(own, other))]
    if not ratios:
        return CheckedClaim(says=claim.says, outcome="not tested", why="there are no values to compare")
    outcomes = [_outcome(claim, ratio) for ratio in ratios]
    contradicted = outcomes.count("does not hold")
    summary: Outcome = (
        "holds" if set(outcomes) == {"holds"} else "does not hold" if contradicted else "cannot tell here"
    )
    repeats = min(len(values) for pair in compared for values in pair)
    why = "" if summary != "cannot tell here" else _why_unclear(repeats)
    return CheckedClaim(says=claim.says, outcome=summary, why=why, pairs=tuple(ratios), contradicted=contradicted)


def _pairs(
    claim: Claim, rows: Sequence[tuple[dict[str, str], Sequence[Values]]]
) -> Iterator[tuple[Sequence[Values], Sequence[Values]]]:
    """The rows with the keys `of`, each with the row that differs from it in the keys `than`."""
    for keys, row in rows:
        if claim.of.items() <= keys.items():
            yield from ((row, other) for other_keys, other in rows if other_keys == {**keys, **claim.than})


def _outcome(claim: Claim, measured: Ratio) -> Outcome:
    if measured.low is None or measured.high is None:
        return "cannot tell here"
    # 1 if the claim is exactly right.
    ratio = Ratio(measured.value / claim.times, measured.low / claim.times, measured.high / claim.times)
    if claim.is_ == "same":
        if ratio.within(claim.within):
            return "holds"
        outside = measured.low > claim.times * (1 + claim.within) or measured.high < claim.times / (1 + claim.within)
        return "does not hold" if outside else "cannot tell here"
    stated = ratio if claim.is_ == "more" else ratio.inverse()
    if stated.low is not None and stated.low > 1 and stated.value > 1 + claim.beyond:
        return "holds"
    contradicted = stated.high is not None and stated.high < 1
    return "does not hold" if contradicted or stated.within(claim.beyond) else "cannot tell here"


def _why_unclear(repeats: int) -> str:
    if repeats < ENOUGH_REPEATS:
        return f"a claim needs {ENOUGH_REPEATS} runs of every row, and these have only {repeats}"
    return "the repeats vary too much"
