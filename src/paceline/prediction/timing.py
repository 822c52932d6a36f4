"""Fits what CPU times do not show: how long messages take besides, and how much of their handling overlaps.

Both follow from the measured rates: the simulation is repeated with several values, and those are kept with which the
rates of the measured runs are met best.
"""

import math
from collections.abc import Sequence

import msgspec

from paceline.prediction.costs import Costs
from paceline.prediction.observe import Observed
from paceline.prediction.simulate import simulate

_HOPS_S = (2e-5, 1e-4, 3e-4, 8e-4, 2e-3)
_OVERLAPS = (0.0, 0.25, 0.5)
_FINER = (0.6, 1.5)
"""Factors by which the best delay is varied once more."""
_STEPS = 30
_MOST_RUNS = 6
"""Runs that are simulated for the fit: those with the fewest tasks, whose steps are closest to a sum of parts."""
_SPREAD = 0.05
_PRIOR_HOP_S, _HOP_SPREAD = 6e-5, 2.0
_PRIOR_OVERLAP, _OVERLAP_SPREAD = 0.15, 0.3


class Timing(msgspec.Struct, frozen=True):
    hop_s: float = _PRIOR_HOP_S
    overlap: float = _PRIOR_OVERLAP


def fit_timing(runs: Sequence[tuple[Observed, Costs]]) -> Timing:
    """The values that fit the measured rates best; without runs those that are usual."""
    chosen = sorted(runs, key=lambda pair: (pair[0].background_cores > 0.3, len(pair[0].setup.places)))[:_MOST_RUNS]
    if not chosen:
        return Timing()
    first = _best(chosen, [Timing(hop_s) for hop_s in _HOPS_S])
    second = _best(chosen, [Timing(first.hop_s, overlap) for overlap in _OVERLAPS])
    return _best(chosen, [second, *(Timing(second.hop_s * factor, second.overlap) for factor in _FINER)])


def _best(runs: Sequence[tuple[Observed, Costs]], timings: Sequence[Timing]) -> Timing:
    return min(timings, key=lambda timing: _misfit(runs, timing))


def _misfit(runs: Sequence[tuple[Observed, Costs]], timing: Timing) -> float:
    """Squared errors of the rates, and how unusual the values are."""
    total = (math.log(timing.hop_s / _PRIOR_HOP_S) / _HOP_SPREAD) ** 2
    total += ((timing.overlap - _PRIOR_OVERLAP) / _OVERLAP_SPREAD) ** 2
    for run, costs in runs:
        tried = msgspec.structs.replace(costs, hop_s=timing.hop_s, overlap=timing.overlap)
        rate = simulate(run.setup, tried, seed=0, steps=_STEPS).updates_per_s
        error = math.log(max(rate, 1e-9) / run.updates_per_s) / _SPREAD
        # One run that does not fit must not decide.
        total += min(error * error, 16.0)
    return total
