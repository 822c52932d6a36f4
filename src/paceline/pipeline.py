"""The way of a request: spec, plan, hosts, agents, tasks, store, result. Read this first."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from paceline.analyze.load import load_result
from paceline.analyze.summary import summarize
from paceline.control.interrupts import Interrupts, count_interrupts
from paceline.control.resume_point import resume_point_of
from paceline.control.run_controller import Watch, execute, host_requests
from paceline.control.run_state import RunState
from paceline.data import registry as data
from paceline.data.dataset import PreparedData
from paceline.engines.registry import ENGINES
from paceline.errors import PlanError, StoreError
from paceline.hosts.registry import HOSTS
from paceline.plan.catalog import Catalog, EngineFacts, HostKindFacts, WorkloadFacts
from paceline.plan.place import RunPlan, place
from paceline.spec.experiment import Experiment
from paceline.spec.load import experiment as request_of
from paceline.spec.load import load_toml
from paceline.spec.sweep import expand, key
from paceline.store.events import add_later
from paceline.store.header import ResumePoint, RunHeader
from paceline.store.header_facts import alternatives, stored_engine, stored_host_kind
from paceline.store.paths import RunPaths, check_writable, runs_of_sweep
from paceline.store.result import Result
from paceline.store.run import StoredRun
from paceline.store.writer import RunWriter
from paceline.strategies.descriptor import Strategy
from paceline.strategies.registry import strategies
from paceline.workloads.model import CLASSIFICATION_LOSSES
from paceline.workloads.operations import training_operations
from paceline.workloads.registry import WORKLOADS, sizes_of, workload
from paceline.workloads.user_workload import code_hash, is_user_workload
from paceline.workloads.workload import Workload

_LINUX = sys.platform == "linux"
View = Callable[[RunPlan, int, int], AbstractContextManager[Watch]]
"""Shows one run while it goes on: given its plan, its number and how many there are."""


def together(*views: View) -> View:
    """Several views of the same run as one."""

    @contextmanager
    def show(one: RunPlan, number: int, of: int) -> Iterator[Watch]:
        with ExitStack() as stack:
            watches = [stack.enter_context(view(one, number, of)) for view in views]

            def watch(moment: RunState) -> None:
                for each in watches:
                    each(moment)

            yield watch

    return show


def plan(experiment: Experiment) -> list[RunPlan]:
    """Every run of the request, placed; refused as a whole if any of them cannot work."""
    specs = expand(experiment)
    choices = catalog({spec.workload for spec in specs})
    plans = [place(spec, choices) for spec in specs]
    for one in plans:
        HOSTS[one.spec.hosts].check(host_requests(one))
    if not plans:
        raise PlanError("nothing to run")
    return plans


def run(
    experiment: Experiment,
    view: View,
    on_result: Callable[[Result, bool], None],
    say: Callable[[str], None] = lambda _line: None,
) -> list[Result]:
    """Make every run that is not done yet; `on_result(result, skipped)` is called as each is there."""
    plans = plan(experiment)
    runs = Path(experiment.runs)
    check_writable(runs)
    wanted = {(one.spec.workload, _workload(one).dataset) for one in plans}
    ready = {(name, dataset): _ensure(name, dataset, say) for name, dataset in wanted}
    done = _done_before(runs, experiment.name) if experiment.name else []
    results = []
    with count_interrupts() as interrupts:
        for number, one in enumerate(plans, 1):
            if interrupts.received:
                break
            data_of_run = ready[one.spec.workload, _workload(one).dataset]
            result = next((r for r in done if r.key == key(one.spec) and r.data == data_of_run.source), None)
            skipped = result is not None
            if result is None:
                with view(one, number, len(plans)) as watch:
                    result = _run_one(one, data_of_run, runs, experiment.name, watch, interrupts)
            on_result(result, skipped)
            results.append(result)
    if interrupts.received and not (results and results[-1].status == "aborted"):
        raise KeyboardInterrupt  # It came too late for the last run and in time for the rest.
    return results


def run_fields(fields: Mapping[str, Any]) -> list[Result]:
    """Make the runs of a request given as fields, and show nothing; an interrupted run raises KeyboardInterrupt."""
    results = run(request_of(fields), lambda *_: nullcontext(lambda _state: None), lambda *_: None)
    if results[-1].status == "aborted":
        raise KeyboardInterrupt
    return results


def resume(paths: RunPaths, view: View, say: Callable[[str], None] = lambda _line: None) -> Result:
    """Go on with a run that was cut short, as a run of its own: what the other left stays as it is."""
    start, trained_on = resume_point_of(paths), load_result(paths).data
    (one,) = plan(request_of(load_toml(paths.spec)))
    check_writable(paths.runs)
    ready = _ensure(one.spec.workload, _workload(one).dataset, say)
    if ready.source != trained_on:
        raise StoreError(f"run {paths.id} was trained on other data ({trained_on}) than there is ({ready.source})")
    name = re.sub(r"-\d+$", "", paths.id)
    with count_interrupts() as interrupts, view(one, 1, 1) as watch:
        return _run_one(one, ready, paths.runs, name, watch, interrupts, start)


def catalog(asked: Iterable[str] = ()) -> Catalog:
    """What there is to choose from on this machine; users' own workloads are there if they are asked for."""
    own = {name: sizes_of(name) for name in asked if is_user_workload(name)}
    return Catalog(
        engines={
            name: EngineFacts(
                strategies=engine.strategies,
                installed=engine.installed,
                install_hint=f"pip install 'paceline[{name}]'",
                shares_memory=engine.shares_memory,
                drops_late=engine.drops_late,
            )
            for name, engine in ENGINES.items()
        },
        workloads={
            name: {
                size: WorkloadFacts(
                    train_examples=one.train_examples,
                    engines=one.engines or frozenset(ENGINES),
                    has_accuracy=one.trained_for in CLASSIFICATION_LOSSES,
                    has_test=bool(one.dataset or one.data or one.test),
                    fixed_examples=one.dataset is None,
                    takes_momentum=not (one.model and one.model.by_rows),
                    trains=one.blocks is None,
                    refused=one.refused,
                )
                for size, one in sizes.items()
            }
            for name, sizes in {**WORKLOADS, **own}.items()
        },
        strategies=strategies(),
        hosts={name: HostKindFacts(shares_memory=kind.shares_memory and _LINUX) for name, kind in HOSTS.items()},
    )


def _ensure(workload_name: str, dataset: str | None, say: Callable[[str], None]) -> PreparedData:
    """The data of a workload. With one's own goes a mark of its code: changed, it is no longer the same run."""
    ready = (
        data.ensure(dataset, say) if dataset else PreparedData(paths=(), source="the workload's own", synthetic=False)
    )
    if is_user_workload(workload_name):
        ready = replace(ready, source=f"{ready.source} (code {code_hash(workload_name)})")
    return ready


def _workload(one: RunPlan) -> Workload:
    return workload(one.spec.workload, one.size)


def _run_one(
    one: RunPlan,
    ready: PreparedData,
    runs: Path,
    name: str | None,
    watch: Watch,
    interrupts: Interrupts,
    start: ResumePoint = ResumePoint(),  # noqa: B008  # frozen
) -> Result:
    writer = RunWriter(runs, name or _workload(one).name, one)
    try:
        header = header_of(one, ready, start, clock_zero_ns=writer.zero_ns)
        writer.header(header)
        if start.run:
            what = f"resumed from update {start.update} of {start.run}"
            writer.event("incident", what=what, taints=True)
        try:
            end = execute(one, HOSTS[one.spec.hosts], ready, writer, watch, interrupts, start)
        except BaseException as error:
            writer.event("ended", status="failed", reason=f"{type(error).__name__}: {error}")
            raise
        finally:
            writer.close()
        stored = StoredRun(writer.paths)
        # On a full disk the header and the end may not be in the events.
        stored.header = header
        result = summarize(stored)
        result.status, result.reason = end.status, end.reason
        if writer.trouble:
            # There was no room for the tables. Whoever looks at the run when there is makes them, and the result.
            result.status, result.reason = "failed", end.reason or writer.trouble
        with suppress(OSError):
            if not stored.first("ended"):
                add_later(writer.paths.events, "ended", status=result.status, reason=result.reason)
            if not writer.trouble:
                stored.write_result(result)
        return result
    finally:
        writer.release()


def header_of(one: RunPlan, ready: PreparedData, start: ResumePoint, *, clock_zero_ns: int) -> RunHeader:
    """The header of a run that starts now."""
    engine = stored_engine(one.spec.engine, one.strategy.name)
    return RunHeader(
        spec=one.spec,
        key=key(one.spec),
        size=one.size,
        layout=str(one.layout),
        places=one.places,
        strategy=one.strategy,
        alternatives=_alternatives(one),
        engine=engine,
        host_kind=stored_host_kind(one.spec.hosts),
        transport=one.transport,
        trains=one.trains,
        limits={most.host: most for most in one.limits},
        operations_per_example=_operations(one),
        data=ready.source,
        resumed=start if start.run else None,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={"paceline": version("paceline"), one.spec.engine: engine.version},
        clock_zero_ns=clock_zero_ns,
    )


def _alternatives(one: RunPlan) -> tuple[Strategy, ...]:
    """The counterparts of a run's strategy that its engine and its workload can do."""
    able = alternatives(one.strategy, one.spec.engine)
    return tuple(strategy for strategy in able if not strategy.reason_against(_workload(one).refused))


def _operations(one: RunPlan) -> int | None:
    """Of a training step; None where nobody but the user knows the model."""
    model = _workload(one).model
    return training_operations(model.layers, model.inputs) if model and model.layers else None


def _done_before(runs: Path, name: str) -> list[Result]:
    """Finished runs of the sweep of this name."""
    found = []
    for paths in runs_of_sweep(runs, name):
        with suppress(StoreError):
            result = load_result(paths)
            if result.status == "ok":
                found.append(result)
    return found
