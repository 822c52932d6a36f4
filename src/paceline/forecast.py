"""Predictions for configurations that were never run, from the runs of a directory: `paceline.predict`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from paceline.available import catalog
from paceline.errors import PacelineError
from paceline.plan.place import RunPlan, place
from paceline.prediction.observe import Observed, observe
from paceline.prediction.plan_setup import fitted_layout, setup_for
from paceline.prediction.predictor import Prediction, Predictor
from paceline.prediction.results import Forecast
from paceline.prediction.simulate import protocol_of
from paceline.prediction.target import Curve, TargetPrediction, read_curve, read_target, time_to_target
from paceline.spec.experiment import OPTIONS
from paceline.spec.load import experiment as read_experiment
from paceline.spec.load import load_toml
from paceline.spec.run_options import RunSpec
from paceline.spec.stop import StopRule
from paceline.spec.sweep import expand
from paceline.store.paths import RunPaths, all_runs, find_runs
from paceline.store.run import StoredRun
from paceline.strategies.registry import strategies

MOST_RUNS = 60
"""Runs of a directory that predictions are made from: the newest ones of the engine."""
_DROPPED = ("stop", "fault", "repeat", "name", "runs", "eval_every", "seed", "time_limit", "script", "param", "tag")
"""Options of the first run that do not change its speed, or that only that run has."""


class Sources:
    """The runs of a directory, each read once."""

    def __init__(self, paths: Sequence[RunPaths]) -> None:
        self._paths = list(paths)
        self._observed: dict[Path, Observed | PacelineError] = {}

    def observed(self, engine: str) -> list[Observed]:
        """The usable runs of an engine, the oldest first."""
        found: list[Observed] = []
        for paths in reversed(self._paths):
            if len(found) >= MOST_RUNS:
                break
            one = self._observe(paths, engine)
            if isinstance(one, Observed) and one.engine == engine:
                found.append(one)
        return found[::-1]

    def _observe(self, paths: RunPaths, engine: str) -> Observed | PacelineError | None:
        if paths.directory not in self._observed:
            try:
                if StoredRun(paths).header.spec.engine != engine:
                    return None
                self._observed[paths.directory] = observe(paths)
            except PacelineError as error:
                self._observed[paths.directory] = error
        return self._observed[paths.directory]

    def why_not(self, paths: RunPaths) -> PacelineError | None:
        """Why a run cannot be used; None if it can."""
        one = self._observe(paths, StoredRun(paths).header.spec.engine)
        return one if isinstance(one, PacelineError) else None

    def curves(self) -> list[Curve]:
        """The evaluations of all runs that have any."""
        found = []
        for paths in self._paths:
            try:
                if curve := read_curve(paths):
                    found.append(curve)
            except PacelineError:
                continue
        return found


def predict(*names: str, runs: str = "runs", target: str | None = None, **changes: Any) -> list[Forecast]:
    """Predict configurations that were never run.

    Args:
        names: Runs or names of sweeps. The first run is the base; all usable runs of the directory contribute.
        runs: Directory that holds the runs.
        target: `accuracy=X` or `loss=X`: predict the time to it too, for synchronous strategies.
        changes: Options of `paceline.run` that differ from the base; a list of values makes a prediction for each.
    """
    plans, sources = plan_predictions(names, runs, changes)
    return forecast(plans, sources, read_target(target) if target else None)


def plan_predictions(names: Sequence[str], directory: str, changes: Mapping[str, Any]) -> tuple[list[RunPlan], Sources]:
    """The planned runs to predict: those of the first named run with these changes, and the runs to predict from."""
    named = find_runs(Path(directory), names)
    sources = Sources(list({paths.directory.resolve(): paths for paths in (*_all(Path(directory)), *named)}.values()))
    refusals = [error for paths in named if (error := sources.why_not(paths))]
    if len(refusals) == len(named):
        raise refusals[0]
    base = load_toml(next(paths for paths in named if not sources.why_not(paths)).spec)
    fields = {name: value for name, value in base.items() if name not in _DROPPED} | dict(changes)
    return plan_specs(fields), sources


def _all(directory: Path) -> list[RunPaths]:
    return list(all_runs(directory)) if directory.is_dir() else []


def plan_specs(fields: Mapping[str, Any]) -> list[RunPlan]:
    """The plans of all combinations of these fields; layouts lose their servers for strategies that have none."""
    specs = list(dict.fromkeys(_fitted(spec) for spec in expand(read_experiment(fields))))
    choices = catalog({spec.workload for spec in specs}, {spec.hosts for spec in specs})
    plans = [place(spec, choices) for spec in specs]
    for plan in plans:
        protocol_of(plan.strategy)
    return plans


def _fitted(spec: RunSpec) -> RunSpec:
    strategy = strategies().get(spec.strategy)
    if spec.layout is None or strategy is None:
        return spec
    return msgspec.structs.replace(spec, layout=fitted_layout(spec.layout, strategy))


def forecast(
    plans: Sequence[RunPlan],
    sources: Sources,
    target: StopRule | None = None,
    advance: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
) -> list[Forecast]:
    """The predictions for these plans, in their order; `advance` is called with what is predicted now."""
    predictors: dict[tuple[str, str, str | None], Predictor] = {}
    curves = sources.curves() if target else []
    found = []
    for number, plan in enumerate(plans):
        advance(f"{plan.strategy.name} '{plan.layout}'", number, len(plans))
        key = plan.title, plan.spec.engine, plan.transport
        runs = sources.observed(plan.spec.engine)
        if key not in predictors:
            predictors[key] = Predictor(*key, runs)
        prediction = predictors[key].predict(setup_for(plan, runs))
        reached = time_to_target(plan, prediction, target, curves) if target else None
        found.append(_forecast(plan, prediction, reached))
    return found


def _forecast(plan: RunPlan, prediction: Prediction, to_target: TargetPrediction | None) -> Forecast:
    spec = plan.spec
    return Forecast(
        workload=plan.title,
        engine=spec.engine,
        strategy=spec.strategy,
        layout=str(plan.layout),
        batch=spec.batch,
        hosts=spec.hosts,
        link=spec.link,
        cpus=spec.cpus,
        updates_per_s=prediction.updates_per_s,
        examples_per_s=prediction.examples_per_s,
        bottleneck=prediction.bottleneck,
        rests_on=prediction.rests_on,
        not_measured=prediction.not_measured,
        log_spread=prediction.log_spread,
        to_target=to_target,
    )


def verification(plan: RunPlan, stop: str) -> dict[str, Any]:
    """The fields of a run that measures a predicted configuration."""
    fields: dict[str, Any] = {
        name: value
        for name in OPTIONS
        if name not in _DROPPED and (value := getattr(plan.spec, name, None)) != OPTIONS[name].default
    }
    return fields | {"workload": plan.spec.workload, "layout": str(plan.layout), "stop": stop}
