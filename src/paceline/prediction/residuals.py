"""By how much the prediction of a new configuration will be off, learned from runs that were predicted and measured.

A Gaussian process on the logarithm of measured / predicted: runs that are alike are off by similar factors. Runs of one
engine, of one workload and of one strategy share parts of it, and a part depends on batch, link, CPU limits and number
of workers.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from paceline.prediction.cluster import Setup

_ENGINE, _WORKLOAD, _STRATEGY, _BOTH = 0.05, 0.03, 0.04, 0.05
"""Standard deviations of the parts of an error that are common to all runs of an engine, to those of a workload, of a
strategy, and of a workload with a strategy."""
_LOCAL, _LOCAL_OF_WORKLOAD = 0.1, 0.14
"""The same of the parts that are alike only for similar configurations: of all workloads, and of one."""
_EXPECTED = -0.03
"""The error to expect before anything was measured: what a simulation leaves out takes time."""
_REPEAT = 0.05
"""By how much repeats of one configuration differ, on the log scale."""
_PRIOR_RUNS = 8.0
"""The weight of the standard deviations above, in runs, when they are scaled to the errors of measured runs."""
_LENGTHS = (2.0, 2.0, 1.2, 0.8, 0.8)
"""Distance over which local errors stay alike, for each number of `Features`."""
_BETTER_LINKS = 0.35
"""By what part errors are smaller if links account for all of the time."""
_UNLIMITED_BITS_S = 1e10
_UNLIMITED_CPUS = 2.0


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two configurations alike."""

    workload: str = ""
    strategy: str
    numbers: tuple[float, ...]
    """Logarithms (base 2) of batch, slowest link, smallest CPU limit, workers, and tasks per core."""
    size: float = 1.0
    """How large errors are, relative to those of configurations that computation limits."""


def features(setup: Setup, network: float = 0.0, workload: str = "") -> Features:
    """`network` is the share of the time that links account for. Links are simulated better than computation."""
    links = [limits.link_bits_s or _UNLIMITED_BITS_S for limits in setup.limits.values()]
    cpus = [min(limits.cpus or _UNLIMITED_CPUS, _UNLIMITED_CPUS) for limits in setup.limits.values()]
    cores = sum(setup.machine_cores.values()) or 1.0
    numbers = (
        float(setup.batch),
        min(links, default=_UNLIMITED_BITS_S),
        min(cpus, default=_UNLIMITED_CPUS),
        float(setup.workers),
        len(setup.places) / cores,
    )
    logs = tuple(math.log2(number) for number in numbers)
    size = 1 - _BETTER_LINKS * network
    return Features(workload=workload, strategy=setup.strategy.name, numbers=logs, size=size)


class Residuals:
    """Errors of the predictions of measured runs: log(measured / predicted)."""

    def __init__(self, runs: Sequence[Features], errors: Sequence[float], spreads: Sequence[float] = ()) -> None:
        """`spreads`: by how much each error is less certain than a repeat (standard deviation)."""
        noise = np.array([_REPEAT**2 + spread**2 for spread in spreads or [0.0] * len(runs)])
        self._runs = list(runs)
        self._errors = np.clip(np.array(errors, float), -1.5, 1.5) - _EXPECTED
        covariance = self._covariance(self._runs, self._runs) + np.diag(noise)
        self._inverse = np.linalg.inv(covariance) if len(self._runs) else np.zeros((0, 0))
        misfit = float(self._errors @ self._inverse @ self._errors) if len(self._runs) else 0.0
        self.scale = (_PRIOR_RUNS + misfit) / (_PRIOR_RUNS + len(self._runs))
        """By what factor the variances of errors are larger than assumed."""

    def at(self, configuration: Features) -> tuple[float, float]:
        """The expected error of the prediction of a configuration, and its standard deviation, with that of repeats."""
        own = self._covariance([configuration], [configuration])[0, 0]
        if not self._runs:
            return _EXPECTED, math.sqrt(own + _REPEAT**2)
        shared = self._covariance([configuration], self._runs)[0]
        mean = _EXPECTED + float(shared @ self._inverse @ self._errors)
        variance = max(0.0, own - float(shared @ self._inverse @ shared)) * self.scale + _REPEAT**2
        return mean, math.sqrt(variance)

    @staticmethod
    def _covariance(first: Sequence[Features], second: Sequence[Features]) -> npt.NDArray[np.float64]:
        if not first or not second:
            return np.zeros((len(first), len(second)))
        a, b = (np.array([one.numbers for one in runs]) / np.array(_LENGTHS) for runs in (first, second))
        distance = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
        near = np.exp(-distance / 2)
        workload, strategy = (
            np.array([[getattr(one, name) == getattr(other, name) for other in second] for one in first], float)
            for name in ("workload", "strategy")
        )
        parts = (
            _ENGINE**2
            + workload * _WORKLOAD**2
            + strategy * (_STRATEGY**2 + _LOCAL**2 * near)
            + workload * strategy * (_BOTH**2 + _LOCAL_OF_WORKLOAD**2 * near)
        )
        covariance: npt.NDArray[np.float64] = parts * np.outer(
            [one.size for one in first], [one.size for one in second]
        )
        return covariance
