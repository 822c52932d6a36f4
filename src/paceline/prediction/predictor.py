"""Predicts the throughput and the bottleneck of configurations from observed runs."""

import math
from collections.abc import Sequence
from functools import cached_property
from statistics import fmean, median

import msgspec
import numpy as np

from paceline.analyze.bottleneck.judge import name_bottleneck, network_share
from paceline.errors import PredictError
from paceline.prediction.calibrate import Calibration, calibrate
from paceline.prediction.cluster import Setup
from paceline.prediction.costs import Costs
from paceline.prediction.observe import Observed, TaskCost
from paceline.prediction.residuals import Residuals, features
from paceline.prediction.simulate import SIMULATED_STEPS, simulate
from paceline.prediction.threads import fair_threads
from paceline.prediction.timing import Timing, fit_timing
from paceline.store.verdict import AccountedTime

_SEEDS = 2
"""Simulations of each configuration."""
_STEPS = 100
_MOST_RESIDUALS, _MOST_OF_OTHERS = 30, 8
"""Runs of the workload, and of each other one, whose own prediction is compared with what was measured: the newest."""
_QUANTILE = 1.2816
"""80 % of a normal distribution are within this many standard deviations."""
_DISTURBED_SPREAD = 0.2
"""How much less the rate of a run says for each core of background load, on the log scale."""
_LOWEST = 1e-9


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted value with its 80 % interval."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Interval":
        return Interval(value=self.value * factor, low=self.low * factor, high=self.high * factor)


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What is predicted for one configuration."""

    updates_per_s: Interval
    examples_per_s: Interval
    bottleneck: AccountedTime
    rests_on: tuple[str, ...]
    """The runs of the same workload and engine that it is made from."""
    not_measured: tuple[str, ...]
    """What no run says much about, so that the interval is wider."""
    log_spread: float
    """Standard deviation of the logarithm of the rates."""


class Predictor:
    """Predictions for one workload on one engine from observed runs."""

    def __init__(self, workload: str, engine: str, transport: str | None, runs: Sequence[Observed]) -> None:
        """`runs` may be of any workload and engine; PredictError if none is of this workload on this engine."""
        self.workload, self.engine, self._transport = workload, engine, transport
        self._runs = [run for run in runs if run.engine == engine and run.transport == transport]
        self._own = [run for run in self._runs if run.workload == workload]
        if not self._own:
            raise PredictError(
                f"none of the {len(runs)} runs trained {workload} with {engine} (transport {transport}): make one "
                f"first, e.g. paceline run {workload.partition(':')[0]} --engine {engine} --stop seconds=4"
            )

    def predict(self, setup: Setup, *, seeds: int = _SEEDS, steps: int = SIMULATED_STEPS) -> Prediction:
        """The prediction for a configuration, from this many simulations of this many steps of each worker."""
        costs = self.costs(setup)
        simulated = [simulate(setup, costs, seed, steps=steps) for seed in range(seeds)]
        bottleneck = name_bottleneck(simulated[0].facts)
        network = network_share(simulated[0].facts)
        residual, residual_spread = self.residuals.at(features(setup, network, self.workload))
        # Time on links does not depend on CPU time.
        spread = math.hypot(residual_spread, self.cost_spread(setup) * (1 - network))
        center = math.exp(fmean(_log(one.updates_per_s) for one in simulated) + residual)
        reach = math.exp(_QUANTILE * spread)
        updates = Interval(value=center, low=center / reach, high=center * reach)
        per_update = fmean(one.examples_per_s / max(one.updates_per_s, _LOWEST) for one in simulated)
        return Prediction(
            updates_per_s=updates,
            examples_per_s=updates.scaled(per_update),
            bottleneck=bottleneck,
            rests_on=tuple(run.run for run in self._own),
            not_measured=self._not_measured(setup),
            log_spread=spread,
        )

    @cached_property
    def calibration(self) -> Calibration:
        return calibrate(self.workload, self._runs, self._base)

    @cached_property
    def residuals(self) -> Residuals:
        """How far the predictions of the measured runs were off, on the log scale; those of other workloads as well."""
        compared = self._compare(_MOST_RESIDUALS)
        for other in self._others:
            compared += other._compare(_MOST_OF_OTHERS)
        return Residuals(
            [features(run.setup, network, run.workload) for run, network, _ in compared],
            [error for *_, error in compared],
            [_DISTURBED_SPREAD * run.background_cores for run, *_ in compared],
        )

    @cached_property
    def _others(self) -> list["Predictor"]:
        """The predictors of the other workloads that were run on this engine."""
        workloads = dict.fromkeys(run.workload for run in self._runs if run.workload != self.workload)
        others = [Predictor(workload, self.engine, self._transport, self._runs) for workload in workloads]
        for other in others:
            other._timings = self._timings
        return others

    def _compare(self, most: int) -> list[tuple[Observed, float, float]]:
        """The newest runs of this workload, with the share of links in their time and the error of their prediction."""
        compared = []
        for run in self._own[-most:]:
            simulated = simulate(run.setup, self.costs(run.setup, run), seed=0)
            error = _log(run.updates_per_s) - _log(simulated.updates_per_s)
            compared.append((run, network_share(simulated.facts), error))
        return compared

    def costs(self, setup: Setup, run: Observed | None = None) -> Costs:
        """The costs of a configuration; the threads are those of `run`, if it is given."""
        timing = self._timing_of(setup.strategy.has_servers)
        return msgspec.structs.replace(self._costs(setup, run), hop_s=timing.hop_s, overlap=timing.overlap)

    def _costs(self, setup: Setup, run: Observed | None = None) -> Costs:
        gradient, parameters = self._bytes(setup)
        threads = self._threads(setup) if run is None else run.threads
        return msgspec.structs.replace(
            self.calibration.costs,
            sent_bytes=gradient,
            received_bytes=parameters,
            repeated=self._repeated(setup),
            threads=threads,
        )

    @cached_property
    def _timings(self) -> dict[bool, Timing]:
        return {}

    def _timing_of(self, with_servers: bool) -> Timing:
        """The timing of messages, which the runs of all workloads tell."""
        if with_servers not in self._timings:
            pairs = [
                (run, one._costs(run.setup, run))
                for one in (self, *self._others)
                for run in one._own
                if run.setup.strategy.has_servers == with_servers and (with_servers or run.setup.workers > 1)
            ]
            self._timings[with_servers] = fit_timing(pairs)
        return self._timings[with_servers]

    @cached_property
    def _base(self) -> Costs:
        """What is known without fitting: the noise of steps."""
        noises = [run.step_noise for run in self._own if run.step_noise is not None and not run.limited]
        noise = min(0.3, median(noises)) if noises else 0.1
        return Costs(step_s=0, example_s=0, sent_bytes=0, received_bytes=0, step_noise=noise)

    def _bytes(self, setup: Setup) -> tuple[float, float]:
        """Bytes of the gradients and of the parameters in an exchange, which may depend on batch and strategy."""
        like = [run for run in self._own if run.setup.strategy.name == setup.strategy.name and run.sent_bytes]
        points = [
            (run.setup.batch, run.sent_bytes, run.received_bytes)
            if run.setup.strategy.has_servers
            else (run.setup.batch, run.ring_bytes, run.ring_bytes)
            for run in like or self._own
            if run.sent_bytes
        ]
        if not points:
            return 0.0, 0.0
        batches, sent, received = (np.array(column, float) for column in zip(*points, strict=True))
        return _at_batch(batches, sent, setup.batch), _at_batch(batches, received, setup.batch)

    def _repeated(self, setup: Setup) -> float:
        """What passes the network besides, as the runs of the same strategy have measured it."""
        found = [run.repeated for run in self._own if run.setup.strategy.name == setup.strategy.name]
        return median(found) if found else 0.0

    def _threads(self, setup: Setup) -> int:
        """Compute threads that a worker would get: 1 if a measured worker that could have had more chose 1."""
        fair = fair_threads(setup)
        chosen = [run.threads for run in self._own if fair_threads(run.setup) > 1]
        return fair if fair == 1 or not chosen else min(fair, round(median(chosen)))

    def cost_spread(self, setup: Setup) -> float:
        """Spread of the logarithm of the CPU time of a step, because its costs are not known exactly."""
        like, (sent, received) = self._own[-1], self._bytes(setup)
        if not setup.strategy.has_servers and setup.workers > 1:
            sent *= 2 * (setup.workers - 1) / setup.workers / setup.sync_every
        threads, compute_s = self._threads(setup), self.calibration.costs.compute_s(setup.batch)
        cpu_s = compute_s * _STEPS
        tasks = tuple(
            TaskCost(task=one.task, role=one.role, host=one.host, cpu_s=cpu_s, steps=_STEPS, threads=threads)
            for one in setup.places
        )
        window_s = 2 * cpu_s
        run = msgspec.structs.replace(
            like,
            setup=setup,
            tasks=tasks,
            sent_bytes=sent,
            received_bytes=received,
            repeated=self._repeated(setup),
            window_s=window_s,
            compute_seconds=None,
        )
        return self.calibration.cpu_spread(run)

    def _not_measured(self, setup: Setup) -> tuple[str, ...]:
        """What the prediction needs and no run says much about."""
        own, batches = {run.setup.strategy.name for run in self._own}, {run.setup.batch for run in self._own}
        found = [] if setup.strategy.name in own else [f"{setup.strategy.name} with {self.workload}"]
        if setup.workers > 1 and setup.strategy.has_servers not in {
            run.setup.strategy.has_servers for run in self._runs
        }:
            found.append(f"messages {'with' if setup.strategy.has_servers else 'without'} parameter servers")
        if len(batches) == 1 and setup.batch not in batches:
            found.append("the cost per example, because all runs have the same batch")
        return tuple(found)


def _log(rate: float) -> float:
    return math.log(max(rate, _LOWEST))


def _at_batch(batches: "np.ndarray", values: "np.ndarray", batch: int) -> float:
    """Bytes at a batch: the mean if they do not depend on the batch, else a line through the measured ones."""
    if np.ptp(values) <= 0.02 * values.max() or np.ptp(batches) == 0:
        return float(values.mean())
    slope, start = np.polyfit(batches, values, 1)
    return max(0.0, float(start + slope * batch))
