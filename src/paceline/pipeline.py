"""The pipeline of an experiment: plan its runs, train and record each run, analyze and store its result.

Read this module first.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from paceline.analyze.conditions import changed_conditions
from paceline.analyze.load import load_result
from paceline.analyze.summary import summarize
from paceline.available import catalog
from paceline.control import events
from paceline.control.execute import execute, host_requests
from paceline.control.interrupts import Interrupts, count_interrupts
from paceline.control.resume_point import damaged_checkpoint, resume_point_of
from paceline.control.run_controller import StateListener
from paceline.control.run_state import RunState
from paceline.data import registry as datasets
from paceline.data.dataset import PreparedData
from paceline.engines.registry import engines
from paceline.errors import PlanError, StoreError
from paceline.hosts.registry import host_provider
from paceline.plan.place import RunPlan, place, with_only_engine
from paceline.preload import prepared
from paceline.spec.experiment import Experiment
from paceline.spec.load import experiment as read_experiment
from paceline.spec.load import load_toml
from paceline.spec.optimizer import describe
from paceline.spec.sweep import expand, key
from paceline.store.events import append_event
from paceline.store.header import ResumePoint, RunHeader, spec_fields
from paceline.store.header_facts import alternatives, stored_engine, stored_host_kind
from paceline.store.paths import RunPaths, all_runs, check_writable, find_run, runs_of_sweep
from paceline.store.result import Result
from paceline.store.run import StoredRun
from paceline.store.writer import RunWriter
from paceline.strategies.descriptor import Strategy
from paceline.strategies.registry import strategies
from paceline.versions import installed_version
from paceline.workloads.operations import training_operations
from paceline.workloads.registry import workload_of
from paceline.workloads.script import script_hash
from paceline.workloads.user_workload import code_hash, is_user_workload
from paceline.workloads.workload import Workload

RunView = Callable[[RunPlan, int, int], AbstractContextManager[StateListener]]
"""Shows or records the state of a run while it is made. Called with the plan, the number of the run (from 1) and the
number of runs; the controller calls the listener with each new state of the run."""
OnMessage = Callable[[str], None]
"""Called with a line of text for the user."""
ShowWork = Callable[[str], AbstractContextManager[Callable[[str, int, int], None]]]
"""Shows that work other than a run goes on. Called with what it is; in the context, it is called with what is done now,
how much of it is done, and how much there is (0 if that is not known)."""


def _ignore_message(_line: str) -> None:
    pass


def _hide_work(_what: str) -> AbstractContextManager[Callable[[str, int, int], None]]:
    return nullcontext(lambda _now, _done, _total: None)


def combine_views(*views: RunView) -> RunView:
    """One view that passes each state of the run to all of these views."""

    @contextmanager
    def combined(run_plan: RunPlan, number: int, run_count: int) -> Iterator[StateListener]:
        with ExitStack() as stack:
            listeners = [stack.enter_context(view(run_plan, number, run_count)) for view in views]

            def call_all(state: RunState) -> None:
                for listener in listeners:
                    listener(state)

            yield call_all

    return combined


def plan(experiment: Experiment) -> list[RunPlan]:
    """The plans of all runs of the experiment; an error if any of the runs cannot work.

    In a sweep over engines and strategies, the pairs that do not exist are left out (see `skipped_pairs`).
    """
    skipped = set(skipped_pairs(experiment))
    specs = [spec for spec in expand(experiment) if (spec.engine, spec.strategy) not in skipped]
    choices = catalog(
        {spec.workload for spec in specs},
        {spec.hosts for spec in specs},
        scripts={spec.script for spec in specs if spec.is_script},
    )
    if "engine" not in experiment.given:
        specs = [with_only_engine(spec, choices) for spec in specs]
    plans = [place(spec, choices) for spec in specs]
    for run_plan in plans:
        host_provider(run_plan.spec.hosts).check(host_requests(run_plan))
    _check_machine(plans)
    if not plans:
        raise PlanError("the experiment has no runs: give at least one value for each option")
    return plans


def skipped_pairs(experiment: Experiment) -> list[tuple[str, str]]:
    """The pairs of engine and strategy of a sweep over both that do not exist, if others of it do."""
    if not {"engine", "strategy"} <= experiment.axes.keys():
        return []
    found = engines()
    pairs = [(engine, name) for engine in experiment.axes["engine"] for name in experiment.axes["strategy"]]
    # Names that are not known are refused when the run is planned.
    missing = [
        (engine, name)
        for engine, name in pairs
        if engine in found and name in strategies() and name not in found[engine].strategies
    ]
    return missing if len(missing) < len(pairs) else []


def _check_machine(plans: Sequence[RunPlan]) -> None:
    """Raise PlanError if an engine whose tasks run on this machine lacks something here that it needs."""
    for engine in sorted({run_plan.spec.engine for run_plan in plans if run_plan.shares_one_machine}):
        for problem in engines()[engine].problems:
            raise PlanError(f"engine {engine} cannot run here: {problem}")


def run(
    experiment: Experiment,
    view: RunView,
    on_result: Callable[[Result, bool], None],
    on_message: OnMessage = _ignore_message,
    show_work: ShowWork = _hide_work,
    *,
    warn_of_conditions: bool = True,
) -> list[Result]:
    """Make every run of the experiment that is not finished yet, and return the results of all its runs.

    `on_result(result, skipped)` is called after each run; `skipped` means that an earlier sweep of this name made it.
    `warn_of_conditions`: say if earlier runs of this name have other stop rules, another seed or the like.
    """
    plans = plan(experiment)
    for engine, strategy in skipped_pairs(experiment):
        on_message(f"skipped {strategy} on {engine}: engine {engine} has no strategy {strategy}")
    with prepared([run_plan.spec for run_plan in plans]):
        return _run_plans(
            experiment, plans, view, on_result, on_message, show_work, warn_of_conditions=warn_of_conditions
        )


def _run_plans(
    experiment: Experiment,
    plans: list[RunPlan],
    view: RunView,
    on_result: Callable[[Result, bool], None],
    on_message: OnMessage,
    show_work: ShowWork,
    *,
    warn_of_conditions: bool,
) -> list[Result]:
    runs = Path(experiment.runs)
    check_writable(runs)
    data = _prepare_data(plans, on_message, show_work)
    earlier = _results_of_sweep(runs, experiment.name) if experiment.name else []
    finished = [result for result in earlier if result.status == "ok"]
    done = [_matching_result(finished, run_plan, _data_of(run_plan, data)) for run_plan in plans]
    new_plans = [run_plan for run_plan, result in zip(plans, done, strict=True) if result is None]
    if warn_of_conditions:
        _warn_of_other_conditions(experiment, new_plans, earlier, on_message)
    results = []
    with count_interrupts() as interrupts:
        for number, (run_plan, result) in enumerate(zip(plans, done, strict=True), 1):
            if interrupts.received:
                break
            skipped = result is not None
            if result is None:
                with view(run_plan, number, len(plans)) as listener:
                    run_data = _data_of(run_plan, data)
                    result = _make_run(run_plan, run_data, runs, experiment.name, listener, interrupts)
            on_result(result, skipped)
            results.append(result)
    if interrupts.received and not (results and results[-1].status == "aborted"):
        # Ctrl-C came after the last run had ended, but before the remaining runs were started.
        raise KeyboardInterrupt
    return results


def resume(
    paths: RunPaths, view: RunView, on_message: OnMessage = _ignore_message, show_work: ShowWork = _hide_work
) -> Result:
    """Continue a run from its last checkpoint. The continuation is a new run; the old run stays unchanged."""
    start, old_data = resume_point_of(paths), load_result(paths).data
    for line in start.damaged:
        on_message(damaged_checkpoint(line))
    (run_plan,) = plan(read_experiment(load_toml(paths.spec)))
    check_writable(paths.runs)
    (data,) = _prepare_data([run_plan], on_message, show_work).values()
    if data.source != old_data:
        raise StoreError(
            f"run {paths.id} was trained on other data ({old_data}) than this machine has ({data.source}): "
            "restore that data, or start a new run"
        )
    name = re.sub(r"-\d+$", "", paths.id)
    with count_interrupts() as interrupts, view(run_plan, 1, 1) as listener:
        return _make_run(run_plan, data, paths.runs, name, listener, interrupts, start)


def latest_resumable(runs: Path) -> RunPaths:
    """The latest run that can be resumed and was not resumed yet; StoreError says why the latest run cannot."""
    first_refusal, resumed = None, set()
    for paths in reversed(list(all_runs(runs))):
        try:
            header = StoredRun(paths).header
            if header.resumed and header.resumed.run:
                resumed.add(header.resumed.run)
            if paths.id in resumed:
                raise StoreError(f"run {paths.id} was already resumed")
            resume_point_of(paths)
        except StoreError as refusal:
            first_refusal = first_refusal or refusal
            continue
        return paths
    if first_refusal is None:
        return find_run(runs, "latest")  # Raises the error that says that there are no runs.
    raise StoreError(f"no run in {runs} can be resumed; the latest: {first_refusal}")


_DataByWorkload = dict[tuple[str, str | None], PreparedData]
"""Prepared data by workload and data set."""


def _data_of(run_plan: RunPlan, data: _DataByWorkload) -> PreparedData:
    return data[run_plan.spec.workload, _workload(run_plan).dataset]


def _prepare_data(plans: Iterable[RunPlan], on_message: OnMessage, show_work: ShowWork) -> _DataByWorkload:
    """The data of all plans by workload and data set; data sets that are not on this machine are fetched."""
    needed = {(run_plan.spec.workload, _workload(run_plan).dataset): run_plan for run_plan in plans}
    return {
        (name, dataset): _script_data(run_plan)
        if run_plan.is_script
        else _prepare_dataset(name, dataset, on_message, show_work)
        for (name, dataset), run_plan in needed.items()
    }


def _script_data(run_plan: RunPlan) -> PreparedData:
    """The source names the version of the script: after a change, earlier runs are not reused."""
    code = script_hash(run_plan.spec.script)
    return PreparedData(paths=(), source=f"the script's own (code {code})", synthetic=False)


def _prepare_dataset(
    workload_name: str, dataset: str | None, on_message: OnMessage, show_work: ShowWork
) -> PreparedData:
    if dataset:
        with show_work(f"preparing {dataset}") as advance:
            prepared = datasets.ensure(dataset, on_message, advance)
    else:
        prepared = PreparedData(paths=(), source="the workload's own", synthetic=False)
    if is_user_workload(workload_name):
        # The source names the version of the user's code: after a change, earlier runs are not reused or resumed.
        prepared = replace(prepared, source=f"{prepared.source} (code {code_hash(workload_name)})")
    return prepared


def _results_of_sweep(runs: Path, name: str) -> list[Result]:
    """The results of the runs of the sweep with this name that can be read."""
    results = []
    for paths in runs_of_sweep(runs, name):
        with suppress(StoreError):
            results.append(load_result(paths))
    return results


def _warn_of_other_conditions(
    experiment: Experiment, plans: Iterable[RunPlan], earlier: Sequence[Result], on_message: OnMessage
) -> None:
    """Say in which conditions, such as stop rules or the seed, the runs differ from earlier runs of the same sweep."""
    specs = [spec_fields(run_plan.spec) for run_plan in plans]
    changed = changed_conditions(earlier, specs, experiment.axes)
    if changed:
        values = "; ".join(f"{name} was {old} and is {new}" for name, (old, new) in changed.items())
        on_message(
            f"warning: the sweep {experiment.name} has runs with other settings ({values}): results under different "
            "conditions do not show which configuration is better; choose another --name to keep them apart"
        )


def _matching_result(results: Iterable[Result], run_plan: RunPlan, data: PreparedData) -> Result | None:
    """The result of a run with the same options and the same data, if there is one."""
    return next((r for r in results if r.key == key(run_plan.spec) and r.data == data.source), None)


def _workload(run_plan: RunPlan) -> Workload:
    return workload_of(run_plan.spec, run_plan.size)


def _make_run(
    run_plan: RunPlan,
    data: PreparedData,
    runs: Path,
    name: str | None,
    listener: StateListener,
    interrupts: Interrupts,
    start: ResumePoint = ResumePoint(),  # noqa: B008  # Frozen, so it is safe as a default.
) -> Result:
    """Make one run in a new run directory: train and record, then analyze and store the result."""
    writer = RunWriter(runs, name or _workload(run_plan).name, run_plan)
    try:
        header = header_of(run_plan, data, start, clock_zero_ns=writer.clock_zero_ns)
        writer.write_header(header)
        if start.run:
            writer.event("incident", what=f"resumed from update {start.update} of {start.run}", taints=True)
        for line in start.damaged:
            writer.event("incident", what=damaged_checkpoint(line))
        try:
            end = execute(run_plan, host_provider(run_plan.spec.hosts), data, writer, listener, interrupts, start)
        except BaseException as error:
            writer.event("ended", status="failed", reason=f"{type(error).__name__}: {error}")
            raise
        finally:
            writer.close()
        return _analyze(writer, header, end)
    finally:
        writer.release()


def _analyze(writer: RunWriter, header: RunHeader, end: events.End) -> Result:
    """The result of the run that was just recorded, stored in its directory if the disk has space for it."""
    stored = StoredRun(writer.paths)
    # If the disk was full, the stored events may lack the header and the status, so both come from memory.
    stored.header = header
    result = summarize(stored)
    result.status, result.reason, result.refused = end.status, end.reason, end.refused
    if writer.write_error:
        # The disk had no space for the tables. The next command that reads the run makes them and the result.
        result.status, result.reason = "failed", end.reason or writer.write_error
    with suppress(OSError):
        if not stored.first("ended"):
            append_event(writer.paths.events, "ended", status=result.status, reason=result.reason)
        if not writer.write_error:
            stored.write_result(result)
    return result


def header_of(run_plan: RunPlan, data: PreparedData, start: ResumePoint, *, clock_zero_ns: int) -> RunHeader:
    """The header of a run that starts now: its options, plan, data and software versions."""
    engine = stored_engine(run_plan.spec.engine, run_plan.strategy.name)
    return RunHeader(
        spec=run_plan.spec,
        key=key(run_plan.spec),
        size=run_plan.size,
        layout=str(run_plan.layout),
        places=run_plan.places,
        strategy=run_plan.strategy,
        alternatives=_alternatives(run_plan),
        engine=engine,
        host_kind=stored_host_kind(run_plan.spec.hosts),
        transport=run_plan.transport,
        trains=run_plan.trains,
        limits={limits.host: limits for limits in run_plan.limits},
        operations_per_example=_operations_per_example(run_plan),
        tokens_per_example=model.tokens if (model := _workload(run_plan).model) else None,
        lr=run_plan.optimizer.lr if run_plan.trains and not run_plan.is_script else None,
        optimizer=describe(run_plan.optimizer) if run_plan.trains and not run_plan.is_script else None,
        update_limit=run_plan.update_limit,
        data=data.source,
        resumed=start if start.run else None,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={"paceline": installed_version(["paceline"]), run_plan.spec.engine: engine.version},
        clock_zero_ns=clock_zero_ns,
    )


def _alternatives(run_plan: RunPlan) -> tuple[Strategy, ...]:
    """The counterparts of the run's strategy that its engine, its workload and its network allow."""
    refused = _workload(run_plan).refused
    untrusted = {} if run_plan.trusted_network else engines()[run_plan.spec.engine].unauthenticated
    supported = alternatives(run_plan.strategy, run_plan.spec.engine)
    return tuple(
        strategy for strategy in supported if not strategy.reason_against(refused) and strategy.name not in untrusted
    )


def _operations_per_example(run_plan: RunPlan) -> int | None:
    """Floating-point operations of a training step per example; None for a user's model, whose layers are unknown."""
    model = _workload(run_plan).model
    return training_operations(model.layers, model.inputs) if model and model.layers else None
