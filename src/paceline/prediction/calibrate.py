"""Estimates the costs of steps and exchanges from observed runs.

The CPU seconds of a task per step are a sum of unknown costs: what a worker computes, what it and the servers do for a
message, for its bytes and for its packets. All observations are fitted together on the log scale, starting from rough
values that hold on most machines. How certain each cost is afterwards says how certain a prediction can be.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from paceline.plan.roles import WORKER
from paceline.prediction.costs import Costs, crowding, packets
from paceline.prediction.observe import Observed, TaskCost

Vector = npt.NDArray[np.float64]
_ROUGH = {
    "step_s": (1e-3, 2.0),
    "example_s": (2e-5, 2.5),
    "threaded": (0.75, 0.3),
    "worker_message_s": (1.5e-4, 1.0),
    "worker_byte_s": (5e-10, 0.5),
    "worker_sync_s": (2e-4, 1.5),
    "server_message_s": (2e-4, 1.0),
    "server_byte_s": (6e-10, 0.5),
    "server_sync_s": (1e-4, 1.5),
    "ring_step_s": (6e-4, 1.0),
    "round_s": (1.5e-4, 1.0),
    "ring_byte_s": (1.5e-9, 0.7),
    "packet_s": (6e-6, 0.8),
    "upkeep": (0.01, 1.0),
    "limited": (1.1, 0.07),
    "crowded": (1.05, 0.1),
}
"""Costs before anything was measured: median, and standard deviation of the logarithm."""
NAMES = tuple(_ROUGH)
_COMPUTE = ("step_s", "example_s", "threaded")
"""Costs that each workload has for itself."""
_MEASUREMENT_SPREAD = 0.1
"""By how much the CPU time per step differs between repeats, on the log scale."""
_PHASE_SPREAD = 0.1
"""The same for the time of the compute phase, which contains some waiting."""
_TRACED_SPREAD = 0.25
"""The same if it is known only from traces of a few steps."""
_MUCH = 0.5
"""If the tasks of a host use more than this part of its CPU limit, the limit makes their compute phases longer."""
_LARGE_NOISE = 0.6
"""With a larger spread between steps, their mean time says nothing about their CPU time."""
_DISTURBED_SPREAD = 0.3
"""The same for each core of background load."""
_TICK_S = 0.01
"""Resolution of the CPU time of a task."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Costs of one workload on one engine, and how certain they are."""

    costs: Costs
    mean: tuple[float, ...]
    """Logarithms of the costs in the order of NAMES, and their covariance."""
    covariance: tuple[tuple[float, ...], ...]

    def cpu_spread(self, run: Observed) -> float:
        """How uncertain the CPU time of a step of such a run is: standard deviation of its logarithm.

        Of the tasks of the run, that of the one whose CPU time is the least certain.
        """
        variances = []
        for observation in _of_tasks(run):
            slopes = np.zeros(len(NAMES))
            parts = [term.factor * math.exp(self._exponent(term)) for term in observation.terms]
            for term, part in zip(observation.terms, parts, strict=True):
                for name, power in term.costs.items():
                    slopes[NAMES.index(name.rpartition(" ")[2])] += power * part / sum(parts)
            variances.append(float(slopes @ np.array(self.covariance) @ slopes))
        return math.sqrt(max(variances, default=0.0))

    def _exponent(self, term: "_Term") -> float:
        return sum(power * self.mean[NAMES.index(name.rpartition(" ")[2])] for name, power in term.costs.items())


class _Term(NamedTuple):
    """A part of the CPU seconds of a task: the product of a number and of powers of costs."""

    factor: float
    costs: dict[str, float]
    """Name of each cost, with its power; costs of computation are prefixed with their workload."""


class _Observation(NamedTuple):
    """CPU seconds of one task per step, as a sum of terms."""

    terms: list[_Term]
    seconds: float
    spread: float


def calibrate(workload: str, runs: Sequence[Observed], base: Costs) -> Calibration:
    """The costs of a workload from runs on one engine and transport: its own, and those of other workloads, from which
    the costs of messages are known. `base` has what is not fitted here."""
    own = [f"{workload} {name}" if name in _COMPUTE else name for name in NAMES]
    observations = [each for run in runs for each in _of_run(run)]
    used = dict.fromkeys(name for each in observations for term in each.terms for name in term.costs)
    names = list(dict.fromkeys((*own, *used)))
    rough = [_ROUGH[name.rpartition(" ")[2]] for name in names]
    prior, widths = np.log([median for median, _ in rough]), np.array([width for _, width in rough])
    mean, covariance = _fit(observations, names, prior, widths)
    mean, covariance = mean[: len(own)], covariance[: len(own), : len(own)]
    return Calibration(
        costs=msgspec.structs.replace(base, **dict(zip(NAMES, map(float, np.exp(mean)), strict=True))),
        mean=tuple(map(float, mean)),
        covariance=tuple(tuple(map(float, row)) for row in covariance),
    )


def _of_run(run: Observed) -> Iterator[_Observation]:
    worker = next(task for task in run.tasks if task.role == WORKER)
    if run.compute_seconds and not _throttled(run) and (run.step_noise or 0) < _LARGE_NOISE:
        # Unless a CPU limit stops it, a worker uses all of its threads while it computes.
        terms = [_Term(one.factor, one.costs | {"crowded": _crowding(run, worker)}) for one in _compute_terms(run)]
        spread = _TRACED_SPREAD if run.traced else _PHASE_SPREAD
        yield _Observation(terms, run.compute_seconds, math.hypot(spread, run.background_cores))
    yield from _of_tasks(run)


def _throttled(run: Observed) -> bool:
    """Whether a CPU limit stopped workers often: the tasks of a host used much of what it allows."""
    used: dict[str, float] = {}
    for task in run.tasks:
        used[task.host] = used.get(task.host, 0.0) + task.cpu_s / run.window_s
    limits = {host: limits.cpus for host, limits in run.setup.limits.items() if limits.cpus is not None}
    return any(used.get(host, 0.0) > _MUCH * cpus for host, cpus in limits.items())


def _of_tasks(run: Observed) -> Iterator[_Observation]:
    for task in run.tasks:
        if task.threads > 1 and run.compute_seconds:
            # Threads that wait for each other, or for the next step, use the CPU as well.
            continue
        condition = {"crowded": _crowding(run, task)}
        if (limits := run.setup.limits.get(task.host)) and limits.cpus is not None:
            condition["limited"] = 1.0
        terms = _worker_terms(run, task) if task.role == WORKER else _server_terms(run, task)
        terms.append(_Term(run.window_s / task.steps, {"upkeep": 1.0}))
        spread = math.hypot(_MEASUREMENT_SPREAD, _TICK_S / task.cpu_s, _DISTURBED_SPREAD * run.background_cores)
        yield _Observation(
            [_Term(one.factor, one.costs | condition) for one in terms if one.factor > 0], task.per_step_s, spread
        )


def _crowding(run: Observed, task: TaskCost) -> float:
    """How much of the other cores of its machine were busy with other workers and programs while the task ran.

    A worker and its server work by turns, so they do not count against each other.
    """
    setup = run.setup
    machine = setup.machine_of[task.host]
    others = [
        one
        for one in run.tasks
        if one.role == WORKER and one.task != task.task and setup.machine_of[one.host] == machine
    ]
    busy = sum(one.cpu_s for one in others) / run.window_s + run.background_cores / len(setup.machine_cores)
    if task.role != WORKER:
        busy -= max((one.cpu_s for one in others), default=0.0) / run.window_s
    return crowding(1 + busy, setup.machine_cores[machine])


def _worker_terms(run: Observed, task: TaskCost) -> list[_Term]:
    cores = float(task.threads)
    return [*(_Term(one.factor * cores, one.costs) for one in _compute_terms(run)), *_exchange_terms(run)]


def _compute_terms(run: Observed) -> list[_Term]:
    """The seconds of the computation of a step."""
    threaded = {f"{run.workload} threaded": 1.0} if run.threads > 1 else {}
    terms = [
        _Term(1.0, {f"{run.workload} step_s": 1.0, **threaded}),
        _Term(float(run.setup.batch), {f"{run.workload} example_s": 1.0, **threaded}),
    ]
    if not run.setup.strategy.has_servers and run.setup.workers > 1:
        terms.append(_Term(1 / run.setup.sync_every, {"ring_step_s": 1.0}))
    return terms


def _exchange_terms(run: Observed) -> list[_Term]:
    """What a worker does for the exchange in a step."""
    setup, link, copies = run.setup, _slowest_link(run), 1 + run.repeated
    if setup.strategy.has_servers:
        return [
            _Term(float(setup.servers), {"worker_message_s": 1.0}),
            _Term(float(setup.strategy.synchronous), {"worker_sync_s": 1.0}),
            _Term((run.sent_bytes + run.received_bytes) * copies, {"worker_byte_s": 1.0}),
            _Term(_both_ways(run, link) * copies, {"packet_s": 1.0}),
        ]
    if setup.workers < 2 or not run.sent_bytes:
        return []
    turns, part = 4 * (setup.workers - 1) / setup.sync_every, run.ring_bytes / (2 * setup.workers)
    return [
        _Term(turns, {"round_s": 1.0}),
        _Term(turns * part, {"ring_byte_s": 1.0}),
        _Term(2 * turns * packets(part, link), {"packet_s": 1.0}),
    ]


def _server_terms(run: Observed, task: TaskCost) -> list[_Term]:
    setup, link = run.setup, _slowest_link(run)
    number = next(place.index for place in setup.places if place.task == task.task)
    share = (setup.shares[number] if setup.shares else 1 / setup.servers) * (1 + run.repeated)
    return [
        _Term(1.0, {"server_message_s": 1.0}),
        _Term(float(setup.strategy.synchronous), {"server_sync_s": 1.0}),
        _Term((run.sent_bytes + run.received_bytes) * share, {"server_byte_s": 1.0}),
        _Term(_both_ways(run, link) * share, {"packet_s": 1.0}),
    ]


def _both_ways(run: Observed, link: float | None) -> float:
    """Packets of an exchange, but not more than the counters of the network say: small messages are not always cut."""
    count = packets(run.sent_bytes, link) + packets(run.received_bytes, link)
    return min(count, run.packets / (1 + run.repeated)) if run.packets else count


def _slowest_link(run: Observed) -> float | None:
    return min((limits.link_bits_s for limits in run.setup.limits.values() if limits.link_bits_s), default=None)


def _fit(
    observations: Sequence[_Observation], names: Sequence[str], prior: Vector, widths: Vector
) -> tuple[Vector, Vector]:
    """Mean and covariance of the logarithms of the costs: the most plausible ones, by Gauss-Newton steps."""
    precision = prior_precision = np.diag(1 / widths**2)
    if not observations:
        return prior, np.linalg.inv(precision).astype(np.float64)
    rows = np.array([number for number, each in enumerate(observations) for _ in each.terms])
    terms = [term for each in observations for term in each.terms]
    factors = np.array([term.factor for term in terms])
    powers = np.array([[term.costs.get(name, 0.0) for name in names] for term in terms])
    measured = np.log([each.seconds for each in observations])
    spreads = np.array([each.spread for each in observations])
    mean = prior
    for _ in range(60):
        parts = factors * np.exp(powers @ mean)
        sums = np.bincount(rows, parts, len(observations))
        slopes = np.zeros((len(observations), len(names)))
        np.add.at(slopes, rows, powers * (parts / sums[rows] / spreads[rows])[:, None])
        misfit = (measured - np.log(sums)) / spreads
        precision = prior_precision + slopes.T @ slopes
        step = np.linalg.solve(precision, slopes.T @ misfit - prior_precision @ (mean - prior))
        mean = mean + np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-4:
            break
    return mean, np.linalg.inv(precision).astype(np.float64)
