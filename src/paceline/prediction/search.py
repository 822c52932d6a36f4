"""Decides which configuration to run next, and when the best one is known. It is pure: beliefs in, decisions out.

Every candidate has a belief about the logarithm of its value: from its prediction, and from its runs so far. Errors of
predictions have a common part, so a run also says something about the other candidates.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

WORTH_RUNNING = 0.75
"""Candidates whose predicted value is below this part of the best are not run."""
SURE = 0.95
"""Probability that is needed to eliminate a candidate and to stop."""
CLOSE_ENOUGH = math.log(1.03)
"""The search ends when the leader is within 3 % of the best."""
FINAL_RUNS, MOST_RUNS = 2, 4
"""Runs that the two leading candidates need, if the budget allows; after the most runs of one, more say nothing new."""
_REPEAT_SPREAD = 0.03
"""By how much repeats of a run differ, on the log scale."""
_COMMON = 0.3
"""Part of the variance of predictions that all candidates share."""
_DRAWS = 4_000

Floats = npt.NDArray[np.float64]


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """What is believed about a candidate before it is run."""

    log_value: float
    log_spread: float
    cost_s: float
    """Seconds that one run of it takes."""


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """What is known after some runs."""

    leader: int
    """The run candidate with the highest expected value; the highest of all if none was run."""
    means: tuple[float, ...]
    """Expected logarithm of the value of each candidate, and its standard deviation."""
    spreads: tuple[float, ...]
    alive: tuple[int, ...]
    """Candidates that may still be the best, the most promising first."""
    surely_close: float
    """Probability that the leader is within 3 % of the best."""
    next: int | None
    """The candidate to run next; None if the search is over."""

    @property
    def ties(self) -> tuple[int, ...]:
        """Candidates that the runs cannot tell from the leader: each may be better, and is within 3 % of it."""
        return tuple(
            one
            for one in self.alive
            if one != self.leader and abs(self.means[one] - self.means[self.leader]) <= CLOSE_ENOUGH
        )


def assess(
    candidates: Sequence[Candidate], measured: Mapping[int, Sequence[float]], seed: int = 0, left_s: float = math.inf
) -> Assessment:
    """Which candidate leads, and which one to run next.

    `measured` has the logarithms of the values of the runs of each candidate. Only candidates whose run fits into
    `left_s` seconds are run.
    """
    rng = np.random.default_rng((seed, sum(map(len, measured.values()))))
    mean, covariance = _beliefs(candidates, measured)
    draws = rng.multivariate_normal(mean, covariance, _DRAWS, method="eigh")
    run = [one for one in measured if measured[one]]
    leader = max(run or range(len(candidates)), key=lambda one: mean[one])
    promising = _promising(candidates, mean, bool(run))
    beaten = (draws > draws[:, [leader]]).mean(axis=0)
    alive = [one for one in promising if one == leader or beaten[one] > 1 - SURE]
    alive.sort(key=lambda one: -mean[one])
    best = draws[:, alive].max(axis=1)
    surely_close = float((best - draws[:, leader] <= CLOSE_ENOUGH).mean())
    affordable = [one for one in alive if candidates[one].cost_s <= left_s and len(measured.get(one, ())) < MOST_RUNS]
    return Assessment(
        leader=leader,
        means=tuple(map(float, mean)),
        spreads=tuple(map(float, np.sqrt(np.diag(covariance)))),
        alive=tuple(alive),
        surely_close=surely_close,
        next=_next(candidates, measured, draws, affordable, leader, surely_close, rng),
    )


def _beliefs(candidates: Sequence[Candidate], measured: Mapping[int, Sequence[float]]) -> tuple[Floats, Floats]:
    """Mean and covariance of the logarithms of the values, given the runs."""
    mean = np.array([one.log_value for one in candidates])
    spreads = np.array([one.log_spread for one in candidates])
    covariance = _COMMON * np.outer(spreads, spreads) + (1 - _COMMON) * np.diag(spreads**2)
    rows = [one for one, values in measured.items() for _ in values]
    if not rows:
        return mean, covariance
    values = np.array([value for one in measured for value in measured[one]])
    gain = covariance[:, rows] @ np.linalg.inv(covariance[np.ix_(rows, rows)] + np.eye(len(rows)) * _REPEAT_SPREAD**2)
    posterior = covariance - gain @ covariance[rows, :]
    return mean + gain @ (values - mean[rows]), (posterior + posterior.T) / 2


def _promising(candidates: Sequence[Candidate], mean: Floats, any_run: bool) -> list[int]:
    """Candidates that are not expected to be far below the best."""
    best = float(mean.max())
    return [
        number
        for number, one in enumerate(candidates)
        if mean[number] >= best + math.log(WORTH_RUNNING) or (not any_run and one.log_value >= best)
    ]


def _next(
    candidates: Sequence[Candidate],
    measured: Mapping[int, Sequence[float]],
    draws: Floats,
    affordable: Sequence[int],
    leader: int,
    surely_close: float,
    rng: np.random.Generator,
) -> int | None:
    """Top-two sampling: of the candidate that is the best in a draw and another that is the best in another draw, the
    one of which a run tells more per second."""
    if not affordable:
        return None
    sure = surely_close >= SURE and bool(measured.get(leader))
    if sure:
        # An only candidate needs no repeats: there is nothing to tell it from.
        finalists = affordable[:2] if len(affordable) > 1 else []
        return next((one for one in finalists if len(measured.get(one, ())) < FINAL_RUNS), None)
    winners = np.array(affordable)[draws[:, affordable].argmax(axis=1)]
    first = int(winners[rng.integers(len(winners))])
    others = winners[winners != first]
    second = int(others[rng.integers(len(others))]) if len(others) else first

    def told_per_second(one: int) -> float:
        variance = float(draws[:, one].var())
        return variance**2 / (variance + _REPEAT_SPREAD**2) / candidates[one].cost_s

    return max((first, second), key=told_per_second)
