"""Finds the best configuration within a time budget: predict all, run only the promising ones: `paceline advise`."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from paceline.analyze.bottleneck.remedies import Configuration
from paceline.analyze.load import load_result
from paceline.errors import PacelineError
from paceline.forecast import Sources, forecast, plan_specs, verification
from paceline.plan.place import RunPlan
from paceline.prediction.results import RUN_S, Advice, Forecast, Goal, Tried
from paceline.prediction.search import Assessment, Candidate, assess
from paceline.spec.run_options import RunSpec
from paceline.spec.sweep import key
from paceline.store.paths import RunPaths, all_runs
from paceline.store.result import Result

PROFILE_S = 4
"""Seconds of training of a run from which predictions are made."""
_STARTUP_S = 4.0
"""What a run takes besides its training, until one was made."""
_UNKNOWN_CURVE_SPREAD = 0.25
"""By how much the examples to a target differ for each doubling of the examples per update, on the log scale."""
_STALENESS_SPREAD = 0.2
"""The same for asynchronous updates."""
MakeRun = Callable[[Mapping[str, Any]], Result]
"""Makes the run of these fields and returns its result."""
Say = Callable[[str], None]


class Adviser:
    """A search over candidates. Runs of the same configurations in the directory count, so a search can be resumed."""

    def __init__(self, fields: Mapping[str, Any], goal: Goal, budget_s: float, make_run: MakeRun, say: Say) -> None:
        """`fields` are options of `paceline.run` with lists; their combinations are the candidates."""
        self.goal, self._budget_s, self._make_run, self._say = goal, budget_s, make_run, say
        self._directory = Path(str(fields.get("runs", "runs")))
        self.plans = plan_specs({name: value for name, value in fields.items() if name not in ("runs", "name", "stop")})
        self._start = time.monotonic()
        self._results: dict[int, list[Result]] = {number: [] for number in range(len(self.plans))}
        self._overheads: list[float] = []
        self._made = 0

    def advise(self) -> Advice:
        """Search until the winner is sure or the budget is spent."""
        self._load_earlier()
        self._profile()
        forecasts = forecast(self.plans, Sources(self._all_runs()))
        priors = self._candidates(forecasts)
        while True:
            candidates = self._candidates(forecasts)
            found = assess(candidates, self._measured(), left_s=self._left_s)
            self._say(self._progress(found))
            if found.next is None:
                return self._advice(priors, found)
            self._run(found.next)

    @property
    def _left_s(self) -> float:
        return self._budget_s - (time.monotonic() - self._start)

    def _all_runs(self) -> list[RunPaths]:
        return list(all_runs(self._directory)) if self._directory.is_dir() else []

    def _load_earlier(self) -> None:
        """Count the runs of the candidates that are in the directory already."""
        keys = {_key(plan.spec): number for number, plan in enumerate(self.plans)}
        for paths in self._all_runs():
            try:
                result = load_result(paths)
            except PacelineError:
                continue
            spec = _spec_of(result, self.plans)
            if spec is not None and (number := keys.get(_key(spec))) is not None and self.goal.value(result):
                self._results[number].append(result)

    def _profile(self) -> None:
        """Make the runs without which nothing can be predicted: with and without servers, with two batches."""
        for fields in _profile_runs(self.plans, Sources(self._all_runs())):
            if self._left_s <= PROFILE_S:
                break
            self._say(f"profiling: {fields['strategy']} '{fields['layout']}', batch {fields['batch']}")
            self._timed(fields | {"stop": f"seconds={PROFILE_S}"})

    def _run(self, number: int) -> None:
        plan = self.plans[number]
        fields = verification(plan, "") | self.goal.stop(self._left_s)
        result = self._timed(fields)
        if self.goal.value(result) is None and result.status != "ok":
            self._say(f"{result.run}: {result.status}, {result.reason}")
        self._results[number].append(result)

    def _timed(self, fields: Mapping[str, Any]) -> Result:
        start = time.monotonic()
        result = self._make_run(fields)
        self._made += 1
        self._overheads.append(max(0.0, time.monotonic() - start - result.train_s))
        return result

    def _measured(self) -> dict[int, list[float]]:
        """Logarithms of the values of all runs. One that did not reach the target took at least as long as it did."""
        measured: dict[int, list[float]] = {}
        for number, results in self._results.items():
            for result in results:
                value = self.goal.value(result) or (0.5 / max(result.train_s, 1.0) if self.goal.target else 1e-9)
                measured.setdefault(number, []).append(math.log(value))
        return measured

    def _candidates(self, forecasts: Sequence[Forecast]) -> list[Candidate]:
        overhead_s = median(self._overheads) if self._overheads else _STARTUP_S
        found = []
        for number, one in enumerate(forecasts):
            rate = one.updates_per_s if self.goal.kind == "updates/s" else one.examples_per_s
            needed, spread = self._examples_needed(self.plans[number]) if self.goal.target else (1.0, 0.0)
            value = rate.value / needed
            train_s = 1 / value if self.goal.target and self._curves else RUN_S
            found.append(
                Candidate(
                    log_value=math.log(max(value, 1e-12)),
                    log_spread=math.hypot(one.log_spread, spread),
                    cost_s=train_s + overhead_s,
                )
            )
        return found

    @property
    def _curves(self) -> dict[int, float]:
        """Examples until the target was reached, by examples per update, from the runs so far."""
        reached: dict[int, list[float]] = {}
        for results in self._results.values():
            for result in results:
                if result.reached and self.goal.value(result):
                    examples = result.reached.at_update * result.examples_per_update
                    reached.setdefault(result.examples_per_update, []).append(examples)
        return {per_update: median(counts) for per_update, counts in reached.items()}

    def _examples_needed(self, plan: RunPlan) -> tuple[float, float]:
        """Examples to the target, and how uncertain that is; any number if no run reached it yet, since it cancels."""
        per_update = plan.spec.batch * plan.gradients_per_update
        spread = 0.0 if plan.strategy.synchronous else _STALENESS_SPREAD
        known = self._curves
        nearest = min(known or [per_update], key=lambda one: abs(math.log2(one / per_update)))
        distance = abs(math.log2(nearest / per_update)) if known else 1.0
        return known.get(nearest, 1.0), math.hypot(spread, _UNKNOWN_CURVE_SPREAD * distance)

    def _progress(self, found: Assessment) -> str:
        leader = self.plans[found.leader]
        return (
            f"{self._budget_s - self._left_s:.0f} of {self._budget_s:g} s: {len(found.alive)} of {len(self.plans)} "
            f"candidates left; leader: {leader.strategy.name} '{leader.layout}', batch {leader.spec.batch}, within "
            f"3 % of the best with probability {found.surely_close:.0%}"
        )

    def _advice(self, priors: Sequence[Candidate], found: Assessment) -> Advice:
        values = [value for result in self._results[found.leader] if (value := self.goal.value(result))]
        return Advice(
            goal=str((self.goal.target and f"{self.goal.kind}={self.goal.target.value:g}") or self.goal.kind),
            command=command(self.plans[found.leader], self.goal),
            value=median(values) if values else None,
            sure=found.surely_close,
            ties=tuple(command(self.plans[one], self.goal) for one in found.ties),
            seconds=time.monotonic() - self._start,
            budget_s=self._budget_s,
            runs=self._made,
            candidates=tuple(
                Tried(
                    strategy=plan.strategy.name,
                    layout=str(plan.layout),
                    batch=plan.spec.batch,
                    command=command(plan, self.goal),
                    predicted=math.exp(priors[number].log_value),
                    expected=math.exp(found.means[number]),
                    runs=tuple(result.run for result in self._results[number]),
                    alive=number in found.alive,
                )
                for number, plan in enumerate(self.plans)
            ),
        )


def _key(spec: RunSpec) -> str:
    """Equal for runs of the same configuration, whenever they end."""
    return key(msgspec.structs.replace(spec, stop=(), seed=1, repeat=1, eval_every=None, layout=spec.layout or ""))


def _spec_of(result: Result, plans: Sequence[RunPlan]) -> RunSpec | None:
    """The spec of a stored run, if it can be one of the candidates."""
    for plan in plans:
        spec = plan.spec
        same = (spec.engine, spec.strategy, spec.batch) == (result.engine, result.strategy, result.batch)
        if same and result.layout == str(plan.layout) and result.title == plan.title and _same_limits(spec, result):
            return spec
    return None


def _same_limits(spec: RunSpec, result: Result) -> bool:
    names = ("hosts", "link", "latency", "cpus", "backup", "threads", "lr", "momentum", "transport", "examples", "size")
    return not result.tainted and all(result.settings.get(name) == getattr(spec, name) for name in names)


def _profile_runs(plans: Sequence[RunPlan], sources: Sources) -> list[dict[str, Any]]:
    """Up to three small runs: the candidates with the fewest tasks with and without servers, and another batch."""
    found: list[dict[str, Any]] = []
    for engine in dict.fromkeys(plan.spec.engine for plan in plans):
        own = [plan for plan in plans if plan.spec.engine == engine]
        known = [run for run in sources.observed(engine) if run.workload == own[0].title]
        measured = {(run.setup.strategy.has_servers, run.setup.workers > 1) for run in known}
        for with_servers in (True, False):
            kind = [plan for plan in own if plan.strategy.has_servers == with_servers]
            several = [plan for plan in kind if len(plan.workers) > 1] or kind
            smallest = min(several, key=lambda plan: len(plan.places), default=None)
            if smallest and (with_servers, len(smallest.workers) > 1) not in measured:
                found.append(verification(smallest, ""))
        if found and len({run.setup.batch for run in known} | {one["batch"] for one in found if "batch" in one}) < 2:
            other = found[0] | {"batch": max(1, own[0].spec.batch // 4)}
            found.append(other)
    for one in found:
        one.setdefault("batch", plans[0].spec.batch)
        one.setdefault("strategy", plans[0].spec.strategy)
    return found


def command(plan: RunPlan, goal: Goal) -> str:
    """The command of a candidate, to be copied."""
    configuration = Configuration(spec=plan.spec, layout=str(plan.layout), strategy=plan.strategy)
    return configuration.command(stop=[goal.target] if goal.target else plan.spec.stop)
