"""Builds a report from stored runs: groups the results, finds the best configurations, makes tables and charts."""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from paceline.analyze.load import load_readable
from paceline.analyze.machines import Machines, machines_of
from paceline.analyze.repeats import Group, group_repeats, run_labels
from paceline.errors import StoreError
from paceline.report import curve_charts, host_charts, timeline_charts, worker_charts
from paceline.report.best_configuration import BestConfigurationRow, best_configuration_rows
from paceline.report.bottlenecks import GroupBottleneck, group_bottlenecks
from paceline.report.chart import Chart
from paceline.report.fault_marks import faults_table
from paceline.report.host_table import hosts_table, links_table
from paceline.report.overview_charts import overview_charts
from paceline.report.run_data import RunData
from paceline.report.selection import SelectedRun, select_runs
from paceline.report.table import DataTable
from paceline.report.tables import group_tables
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun, as_store_errors

Advance = Callable[[str, int, int], None]
"""Called with what is done now, how much of it is done, and how much there is."""
OnMessage = Callable[[str], None]
"""Called with a line of text for the user."""


class ReportData(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a report except its charts."""

    title: str
    results: list[Result]
    groups: list[Group]
    best_configurations: list[BestConfigurationRow]
    bottlenecks: list[GroupBottleneck]
    tables: list[DataTable]


class RunCharts(msgspec.Struct, frozen=True):
    run: SelectedRun
    charts: list[Chart]


class Charts(msgspec.Struct, frozen=True, kw_only=True):
    """All charts of a report."""

    overview: list[Chart]
    runs: list[RunCharts]


def ignore_message(_line: str) -> None:
    pass


def build(
    title: str,
    runs: Sequence[RunPaths],
    advance: Advance = lambda _now, _done, _total: None,
    *,
    by_sweep: bool = False,
    on_message: OnMessage = ignore_message,
) -> ReportData:
    """The report of the runs that can be read; `by_sweep` keeps equal configurations of different sweeps apart."""
    results = load_readable(_with_progress(runs, advance), on_message)
    paths = {str(run.directory): run for run in runs}
    machines = {result.dir: _machines(StoredRun(paths[result.dir]), on_message) for result in results}
    groups = group_repeats(results, by_sweep=by_sweep)
    tables = [*group_tables(groups), hosts_table(groups, machines), links_table(results)]
    tables.append(faults_table(results, run_labels(results)))
    return ReportData(
        title=title,
        results=results,
        groups=groups,
        best_configurations=best_configuration_rows(groups),
        bottlenecks=group_bottlenecks(groups, run_labels(results)),
        tables=[table for table in tables if table.rows],
    )


def _with_progress(runs: Sequence[RunPaths], advance: Advance) -> Iterator[RunPaths]:
    for number, run in enumerate(runs):
        advance("reading runs", number, len(runs))
        yield run


def _machines(run: StoredRun, on_message: OnMessage) -> Machines:
    """The machines of a run; none if its events are damaged, since the result does not need them."""
    try:
        return machines_of(run)
    except StoreError as error:
        on_message(f"without the machines of its hosts: {error}")
        return Machines(by_host={}, shared=False)


def build_charts(
    report: ReportData,
    runs: Sequence[RunPaths],
    advance: Advance = lambda _now, _done, _total: None,
    on_message: OnMessage = ignore_message,
) -> Charts:
    """The charts; a run whose tables are damaged has none."""
    paths = {str(run.directory): run for run in runs}
    charts, test_curves = [], []
    all_selected = select_runs(report.groups, report.best_configurations)
    for number, selected in enumerate(all_selected):
        advance("making charts of runs", number, len(all_selected))
        # Only the step and sample tables of one run are in memory at a time: they may be large.
        data = RunData(selected.result, paths[selected.result.dir])
        try:
            with as_store_errors(selected.label):
                drawn, curve = RunCharts(selected, run_charts(data)), curve_charts.TestCurve(data)
        except StoreError as error:
            on_message(f"without charts: {error}")
            continue
        charts.append(drawn)
        test_curves.append((f"{selected.title} ({selected.label})", curve))
    curves = curve_charts.test_curves_of_runs(test_curves)
    return Charts(overview=[*overview_charts(report.groups), *([curves] if curves else [])], runs=charts)


def run_charts(run: RunData) -> list[Chart]:
    """The charts for which a run has data."""
    charts = [
        curve_charts.quality(run),
        curve_charts.updates_per_second(run),
        worker_charts.phase_bars(run.result),
        host_charts.host_metrics(run),
        timeline_charts.shares_over_time(run),
        timeline_charts.timeline(run),
        worker_charts.steps_per_worker(run.result),
        worker_charts.staleness(run),
    ]
    return [chart for chart in charts if chart and chart.views]
