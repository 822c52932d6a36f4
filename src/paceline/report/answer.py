"""Which configuration wins for which goal, and by how much."""

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from paceline import units
from paceline.analyze.repeats import Group, Spread
from paceline.report.titles import titles
from paceline.store.result import Result
from paceline.ui import format as fmt

Figure = Callable[[Result], float | None]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    goal: str
    winner: str
    """The title of the configuration."""
    sentence: str
    figure: str
    """The winner's, with its unit and its spread over repeats."""
    second: str
    by: str
    """How far the winner is ahead of the second."""


class _Goal(msgspec.Struct, frozen=True):
    name: str
    unit: str
    figure: Figure
    more_is_better: bool
    apart: str
    """What the distance between two is counted in."""
    ahead: str
    """How to say which way it goes."""
    scale: float = 1.0
    digits: int | None = None
    by_difference: bool = False
    missing: str = "have no such figure"
    """What is said of those without one."""


class _Entry(msgspec.Struct, frozen=True):
    title: str
    spread: Spread
    runs: int


def answers(groups: Sequence[Group]) -> list[Answer]:
    """One for each goal that some run has a figure for; none if no run ended well."""
    named = [(title, group) for title, group in zip(titles(groups), groups, strict=True) if group.ok]
    found = []
    for goal in _goals([group for _, group in named]):
        entries = [
            _Entry(title, spread, len(group.ok)) for title, group in named if (spread := group.spread(goal.figure))
        ]
        if entries:
            ranked = sorted(entries, key=lambda entry: entry.spread.mean, reverse=goal.more_is_better)
            found.append(_answer(goal, ranked, without=len(named) - len(entries)))
    return found


def _goals(groups: Sequence[Group]) -> list[_Goal]:
    results = [result for group in groups for result in group.ok]
    goals = []
    if rule := _common_rule(results):
        # A time to one target says nothing beside a time to another.
        def to_target(result: Result) -> float | None:
            return result.to_target_s if result.reached and result.reached.rule == rule else None

        goals.append(
            _Goal(f"time to {rule}", "s", to_target, False, "times", "as fast as", missing="did not get there")
        )
    goals.append(_Goal("updates/s", "updates/s", lambda r: r.updates_per_s, True, "times", "the pace of"))
    if any(result.batch for result in results):
        examples = _Goal(
            "examples/s", "examples/s", lambda r: r.examples_per_s if r.batch else None, True, "times", "the pace of"
        )
        goals += [examples, *_quality(results)]
    return goals


def _quality(results: Sequence[Result]) -> list[_Goal]:
    if any(result.final.accuracy is not None for result in results):
        return [_Goal("final accuracy", "%", lambda r: r.final.accuracy, True, "points", "above", 100, 2, True)]
    if any(result.final.loss is not None for result in results):
        return [_Goal("final test loss", "", lambda r: r.final.loss, False, "", "below", 1, 4, True)]
    return []


def _common_rule(results: Sequence[Result]) -> str | None:
    rules = Counter(result.reached.rule for result in results if result.reached and result.to_target_s is not None)
    return rules.most_common(1)[0][0] if rules else None


def _answer(goal: _Goal, ranked: Sequence[_Entry], *, without: int) -> Answer:
    best, others = ranked[0], ranked[1:]
    figure = f"{fmt.spread(best.spread, scale=goal.scale, digits=goal.digits)} {goal.unit}".strip()
    if not others:
        sentence = f"{goal.name[0].upper()}{goal.name[1:]}: {best.title}, {figure}."
        return Answer(goal=goal.name, winner=best.title, sentence=sentence, figure=figure, second="-", by="-")
    second, last = others[0], others[-1]
    sentence = f"Best for {goal.name}: {best.title}, {figure}; {_ahead(goal, best, second)}{_doubt(best, second)}"
    if len(others) > 1:
        sentence += f"; {_ahead(goal, best, last)}, the last of {len(ranked)}"
    if without:
        sentence += f"; {without} of {len(ranked) + without} configurations {goal.missing}"
    by = _distance(goal, best, second)
    return Answer(goal=goal.name, winner=best.title, sentence=f"{sentence}.", figure=figure, second=second.title, by=by)


def _ahead(goal: _Goal, best: _Entry, other: _Entry) -> str:
    return f"{_distance(goal, best, other)} {goal.ahead} {other.title}"


def _distance(goal: _Goal, best: _Entry, other: _Entry) -> str:
    ours, theirs = best.spread.mean, other.spread.mean
    if goal.by_difference:
        return f"{abs(ours - theirs) * goal.scale:.{goal.digits}f} {goal.apart}".strip()
    more, less = (ours, theirs) if goal.more_is_better else (theirs, ours)
    return f"{units.short(more / less) if less else 'many'} {goal.apart}"


def _doubt(best: _Entry, second: _Entry) -> str:
    """A difference that repeats do not bear out must not read like one that they do."""
    if best.spread.deviation is None or second.spread.deviation is None:
        return " (one run each: chance is not ruled out)"
    apart = abs(best.spread.mean - second.spread.mean)
    if apart <= best.spread.deviation + second.spread.deviation:
        return f" (within the spread of {min(best.runs, second.runs)} repeats: take them as equal)"
    return ""
