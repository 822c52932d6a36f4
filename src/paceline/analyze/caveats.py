"""What a reader must know before trusting a comparison."""

from collections.abc import Iterator

from paceline.analyze.comparison import Comparison
from paceline.analyze.metrics import TO_TARGET
from paceline.analyze.repeats import Group, setting
from paceline.analyze.sync_async import dominant_worker, injected_faults
from paceline.present.notes import highest_background_load, logs_of
from paceline.present.numbers import percent
from paceline.present.thresholds import BACKGROUND_LOAD_CORES, ENOUGH_REPEATS


def caveats(comparison: Comparison) -> list[str]:
    usable = [group for group in comparison.groups if group.ok]
    return [
        *_excluded(comparison),
        *_unpaired(comparison),
        *_stop_rules(usable),
        *[
            line
            for group, name in zip(comparison.groups, comparison.names, strict=True)
            for find in (_too_short, _faults, _dominant_worker, _missed_target)
            for line in find(group, name)
        ],
        *_different_updates(comparison),
        *_shared_machine(comparison),
        *_background_load(usable),
        *(_few_repeats(usable) if comparison.pairs else ()),
    ]


def _excluded(comparison: Comparison) -> Iterator[str]:
    labels = comparison.run_labels
    for result, reason in comparison.excluded:
        logs = f"; logs: {logs_of(result)}" if result.status != "ok" else ""
        yield f"excluded: {labels[result.dir]}, {reason}{logs}"


def _unpaired(comparison: Comparison) -> Iterator[str]:
    if comparison.pairs and comparison.unpaired:
        yield f"not compared, because there is no baseline for it: {', '.join(comparison.unpaired)}"


def _too_short(group: Group, name: str) -> Iterator[str]:
    if why := group.too_short:
        yield f"{name}: {why}: too short to compare its speed; train longer"


def _stop_rules(groups: list[Group]) -> Iterator[str]:
    rules = dict.fromkeys(setting(group.first, "stop") for group in groups)
    if len(rules) > 1:
        yield (
            f"the runs end by different rules ({'; '.join(rules)}): configurations are ranked only with those that end "
            "by the same rules"
        )


def _faults(group: Group, name: str) -> Iterator[str]:
    for fault, runs in injected_faults(group).items():
        where = "" if runs == len(group.ok) else f" (in {runs} of {len(group.ok)} runs)"
        yield f"{name}: throughput includes the effect of an injected fault: {fault}{where}"


def _dominant_worker(group: Group, name: str) -> Iterator[str]:
    if found := dominant_worker(group):
        task, share = found
        yield f"{name}: {task} made {percent(share)} of the steps"


def _missed_target(group: Group, name: str) -> Iterator[str]:
    reached = len(group.values(TO_TARGET.read))
    if group.requested_targets and reached < len(group.ok):
        yield f"{name}: {reached} of {len(group.ok)} runs reached {' or '.join(group.requested_targets)}"


def _different_updates(comparison: Comparison) -> Iterator[str]:
    """Whether learning rates were not scaled with the examples per update, and how to scale them."""
    trained = [group.first for group in comparison.groups if group.ok and group.first.batch]
    sizes, rates = {one.examples_per_update for one in trained}, {one.lr for one in trained}
    if len(sizes) > 1 and len({one.batch for one in trained}) == 1 and len(rates) == 1 and None not in rates:
        yield (
            f"updates have {' or '.join(f'{size:,}' for size in sorted(sizes))} examples, all at learning rate "
            f"{rates.pop():g}; to scale it with the examples, add --set lr_scale=linear"
        )


def _shared_machine(comparison: Comparison) -> Iterator[str]:
    bases = [scaling.base.first for scaling in comparison.scalings]
    kinds = dict.fromkeys(base.hosts_kind for base in bases if base.one_machine and not base.settings.get("cpus"))
    for kind in kinds:
        yield f"{kind} hosts share the cores of this machine, which limits the speed-up from more workers"


def _background_load(groups: list[Group]) -> Iterator[str]:
    cores = max((highest_background_load(result)[0] for group in groups for result in group.ok), default=0.0)
    if cores > BACKGROUND_LOAD_CORES:
        yield f"background load: up to {cores:.1f} cores; it may explain differences"


def _few_repeats(groups: list[Group]) -> Iterator[str]:
    if min(len(group.ok) for group in groups) < ENOUGH_REPEATS:
        yield (
            f"fewer than {ENOUGH_REPEATS} repeats of some configurations: to add repeats, run the same command with "
            "the sweep's --name and a larger --repeat"
        )
