"""What a set of runs shows, in a sentence or two."""

from collections.abc import Sequence

from paceline import units
from paceline.analyze.repeats import Group, group_repeats
from paceline.store.result import Result


def sentence(results: Sequence[Result]) -> str:
    groups = [group for group in group_repeats(results) if group.ok]
    failed = [result for result in results if result.status != "ok"]
    parts = []
    if len(groups) > 1:
        parts.append(_fastest(groups))
        parts.append(_to_target(groups))
        parts.append(_uneven(groups))
    if failed:
        parts.append(f"{len(failed)} of {len(results)} runs did not end well: {failed[0].run} ({failed[0].reason}).")
    return " ".join(part for part in parts if part)


def _fastest(groups: Sequence[Group]) -> str:
    ranked = sorted(groups, key=_examples_pace)
    slow, fast = ranked[0], ranked[-1]
    times = _examples_pace(fast) / max(_examples_pace(slow), 1e-9)
    if times < 1.1:
        return "All of these train at much the same pace."
    return (
        f"Most examples a second: {_name(fast)}, {units.short(_examples_pace(fast))}; that is {times:.1f} times "
        f"{_name(slow)}, where {slow.first.verdict.cause} takes {slow.first.verdict.share:.0%} of the workers' time."
    )


def _to_target(groups: Sequence[Group]) -> str:
    timed = []
    for group in groups:
        spread = group.spread(
            lambda r: r.reached.at_s if r.reached and r.reached.rule.startswith(("loss", "accuracy")) else None
        )
        if spread and group.first.reached:
            timed.append((spread.mean, group))
    if len(timed) < 2:
        return ""
    timed.sort(key=lambda item: item[0])
    (best, winner), (worst, loser) = timed[0], timed[-1]
    assert winner.first.reached
    rule = winner.first.reached.rule
    return f"First at {rule}: {_name(winner)} in {units.short(best)} s; last {_name(loser)} in {units.short(worst)} s."


def _uneven(groups: Sequence[Group]) -> str:
    """A worker that did most of the work must not go unnoticed."""
    for group in groups:
        steps = [worker.steps for worker in group.first.workers]
        if len(steps) > 1 and max(steps) > 2 * max(1, min(steps)):
            most = max(group.first.workers, key=lambda worker: worker.steps)
            return f"In {_name(group)}, {most.task} on {most.host} made {most.steps / sum(steps):.0%} of the steps."
    return ""


def _examples_pace(group: Group) -> float:
    spread = group.spread(lambda r: r.examples_per_s)
    return spread.mean if spread else 0.0


def _name(group: Group) -> str:
    first = group.first
    return f"{first.engine} {first.strategy} ({first.layout}, batch {first.batch})"
