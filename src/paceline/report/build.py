"""Builds a report from stored runs: groups the results, finds the best configurations, makes tables and charts."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.load import load_result
from paceline.analyze.machines import machines_of
from paceline.analyze.repeats import Group, group_repeats
from paceline.report import curve_charts, host_charts, timeline_charts, worker_charts
from paceline.report.best_configuration import BestConfigurationRow, best_configuration_rows
from paceline.report.bottlenecks import GroupBottleneck, group_bottlenecks
from paceline.report.chart import Chart
from paceline.report.fault_marks import faults_table
from paceline.report.host_table import hosts_table
from paceline.report.overview_charts import overview_charts
from paceline.report.run_data import RunData
from paceline.report.selection import SelectedRun, select_runs
from paceline.report.table import DataTable
from paceline.report.tables import group_tables
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun, as_store_errors


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


def build(title: str, runs: Sequence[RunPaths]) -> ReportData:
    results = [load_result(paths) for paths in runs]
    machines = {paths.id: machines_of(StoredRun(paths)) for paths in runs}
    groups = group_repeats(results)
    tables = [*group_tables(groups), hosts_table(groups, machines), faults_table(results)]
    return ReportData(
        title=title,
        results=results,
        groups=groups,
        best_configurations=best_configuration_rows(groups),
        bottlenecks=group_bottlenecks(groups),
        tables=[table for table in tables if table.rows],
    )


def build_charts(report: ReportData, runs: Sequence[RunPaths]) -> Charts:
    paths = {run.id: run for run in runs}
    charts, test_curves = [], []
    for selected in select_runs(report.groups, report.best_configurations):
        # Only the step and sample tables of one run are in memory at a time: they may be large.
        data = RunData(selected.result, paths[selected.result.run])
        with as_store_errors(paths[selected.result.run].directory):
            charts.append(RunCharts(selected, run_charts(data)))
            test_curves.append((f"{selected.title} ({selected.result.run})", curve_charts.TestCurve(data)))
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
