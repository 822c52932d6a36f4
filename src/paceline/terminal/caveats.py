"""What a reader must know before believing a comparison."""

from collections.abc import Iterator

from paceline.analyze.comparison import Comparison
from paceline.analyze.metrics import TO_TARGET
from paceline.analyze.repeats import Group
from paceline.analyze.sync_async import caused, uneven
from paceline.terminal.details import NOTABLE_CORES

_ENOUGH_REPEATS = 3


def caveats(comparison: Comparison) -> list[str]:
    usable = [group for group in comparison.groups if group.ok]
    return [
        *[f"left out: {result.run}, {why}" for result, why in comparison.left_out],
        *_unpaired(comparison),
        *[
            line
            for group, name in zip(comparison.groups, comparison.names, strict=True)
            for line in (*_faults(group, name), *_unevenness(group, name), *_missed_target(group, name))
        ],
        *_shared_machine(comparison),
        *_busy_machine(usable),
        *(_few_repeats(usable) if comparison.pairs else ()),
    ]


def _unpaired(comparison: Comparison) -> Iterator[str]:
    if comparison.pairs and (alone := comparison.unpaired):
        yield f"compared with none, having no counterpart: {', '.join(alone)}"


def _faults(group: Group, name: str) -> Iterator[str]:
    """What was disturbed on purpose says little about how fast it is."""
    for what, runs in caused(group).items():
        where = "" if runs == len(group.ok) else f" (in {runs} of {len(group.ok)} runs)"
        yield f"{name} was disturbed on purpose: {what}{where}"


def _unevenness(group: Group, name: str) -> Iterator[str]:
    """A worker that did most of the work must not go unnoticed."""
    if found := uneven(group):
        task, share = found
        yield f"in {name}, {task} made {share:.0%} of the steps"


def _missed_target(group: Group, name: str) -> Iterator[str]:
    reached = len(group.values(TO_TARGET.of))
    if group.wanted and reached < len(group.ok):
        yield f"{name} reached {' or '.join(group.wanted)} in {reached} of {len(group.ok)} runs"


def _shared_machine(comparison: Comparison) -> Iterator[str]:
    bases = [scaling.base.first for scaling in comparison.scalings]
    kinds = dict.fromkeys(base.hosts_kind for base in bases if base.one_machine and not base.settings.get("cpus"))
    for kind in kinds:
        yield f"on {kind} all hosts share this machine's cores: that limits what more workers bring"


def _busy_machine(groups: list[Group]) -> Iterator[str]:
    others = max((result.other_cores_mean for group in groups for result in group.ok), default=0.0)
    if others > NOTABLE_CORES:
        yield f"other programs used up to {others:.1f} cores of this machine meanwhile: a difference may be theirs"


def _few_repeats(groups: list[Group]) -> Iterator[str]:
    if min(len(group.ok) for group in groups) < _ENOUGH_REPEATS:
        yield "few repeats tell little: the same command with a larger --repeat and its --name adds some"
