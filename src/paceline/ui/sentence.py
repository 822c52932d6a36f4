"""What a set of runs shows, in a sentence or two."""

from collections.abc import Sequence
from itertools import product

from paceline import units
from paceline.analyze.repeats import Group, group_repeats, setting, varied
from paceline.store.result import Result


def sentence(results: Sequence[Result]) -> str:
    groups = [group for group in group_repeats(results) if group.ok]
    failed = [result for result in results if result.status != "ok"]
    parts = []
    if len(groups) > 1:
        names = _names(groups)
        parts += [_to_target(groups, names), _fastest(groups, names), *_modes(groups), _uneven(groups, names)]
    if failed:
        parts.append(f"{len(failed)} of {len(results)} runs did not end well: {failed[0].run} ({failed[0].reason}).")
    return " ".join(part for part in parts if part)


def _to_target(groups: Sequence[Group], names: dict[int, str]) -> str:
    timed = []
    for group in groups:
        spread = group.spread(lambda r: r.to_target_s)
        reached = next((result.reached for result in group.ok if result.to_target_s is not None), None)
        if spread and reached:
            timed.append((spread.mean, names[id(group)], reached.rule))
    if len(timed) < 2:
        return ""
    timed.sort()
    (best, winner, rule), (worst, loser, _) = timed[0], timed[-1]
    return f"First at {rule}: {winner}, after {units.short(best)} s; last: {loser}, after {units.short(worst)} s."


def _fastest(groups: Sequence[Group], names: dict[int, str]) -> str:
    # Where nothing is trained there are no examples: updates are what all of them have.
    trains = all(group.first.batch for group in groups)
    pace, what = (_examples_pace, "examples") if trains else (_updates_pace, "updates")
    ranked = sorted(groups, key=pace)
    slow, fast = ranked[0], ranked[-1]
    times = pace(fast) / max(pace(slow), 1e-9)
    if times < 1.1:
        return f"All of these {'train' if trains else 'run'} at much the same pace."
    cause, share = _largest_phase(slow)
    return (
        f"Most {what} a second: {names[id(fast)]}, {units.short(pace(fast))}, {times:.1f} times as many as "
        f"{names[id(slow)]}, whose workers spend {share:.0%} of their time in {cause}."
    )


def _modes(groups: Sequence[Group]) -> list[str]:
    """Async against sync, where all else is equal."""
    said = []
    for sync, other in product(groups, groups):
        if (sync.first.strategy, other.first.strategy) != ("ps-sync", "ps-async"):
            continue
        slow, fast = (group.spread(lambda r: r.updates_per_s) for group in (sync, other))
        if varied([sync, other]) == ["strategy"] and slow and fast and slow.mean:
            said.append(
                f"{_common(sync, groups)}, async makes {fast.mean / slow.mean:.1f} updates in the time of one of sync, "
                f"each from a batch of one worker instead of {len(sync.first.workers)}."
            )
    return said[:2]


def _common(sync: Group, groups: Sequence[Group]) -> str:
    """What a pair of sync and async has in common and others have not."""
    parts = [_part(sync.first, name) for name in varied(groups) if name != "strategy"]
    return f"With {' '.join(parts)}" if parts else "Here"


def _largest_phase(group: Group) -> tuple[str, float]:
    times: dict[str, float] = {}
    for result in group.ok:
        for worker in result.workers:
            for phase, seconds in worker.phases.items():
                times[phase] = times.get(phase, 0.0) + seconds
    if not times:
        return "unknown phases", 1.0
    cause = max(times, key=lambda phase: times[phase])
    return cause, times[cause] / sum(times.values())


def _uneven(groups: Sequence[Group], names: dict[int, str]) -> str:
    """A worker that did most of the work must not go unnoticed."""
    for group in groups:
        steps = [worker.steps for worker in group.ok[0].workers]
        if len(steps) > 1 and max(steps) > 2 * max(1, min(steps)):
            most = max(group.ok[0].workers, key=lambda worker: worker.steps)
            share = most.steps / sum(steps)
            return f"In {names[id(group)]}, {most.task} on {most.host} made {share:.0%} of the steps."
    return ""


def _names(groups: Sequence[Group]) -> dict[int, str]:
    """Each group by what sets it apart from the others."""
    apart = varied(groups)
    return {id(group): " ".join(_part(group.first, name) for name in apart) for group in groups}


def _part(result: Result, name: str) -> str:
    value = setting(result, name)
    if name == "layout":
        return f"'{value}'"
    return value if name in ("workload", "engine", "strategy") else f"{name} {value}"


def _updates_pace(group: Group) -> float:
    spread = group.spread(lambda r: r.updates_per_s)
    return spread.mean if spread else 0.0


def _examples_pace(group: Group) -> float:
    spread = group.spread(lambda r: r.examples_per_s)
    return spread.mean if spread else 0.0
