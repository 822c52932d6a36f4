"""Builds a report from stored runs: group the results, find the best configurations, make tables and charts."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.load import load_result
from paceline.analyze.repeats import Group, group_repeats
from paceline.report import curve_charts, host_charts, timeline_charts, worker_charts
from paceline.report.best_configuration import BestConfigurationRow, best_configuration_rows
from paceline.report.bottlenecks import GroupBottleneck, group_bottlenecks
from paceline.report.chart import Chart
from paceline.report.fault_marks import faults_sheet
from paceline.report.host_table import per_host
from paceline.report.overview_charts import overview
from paceline.report.run_data import RunData, machine_of
from paceline.report.selection import Chosen, choose
from paceline.report.table import DataTable
from paceline.report.tables import sheets
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import as_store_errors


class ReportData(msgspec.Struct, frozen=True, kw_only=True):
    """All that a report says, but for its figures."""

    title: str
    results: list[Result]
    groups: list[Group]
    best_configurations: list[BestConfigurationRow]
    bottlenecks: list[GroupBottleneck]
    sheets: list[DataTable]


class RunCharts(msgspec.Struct, frozen=True):
    chosen: Chosen
    figures: list[Chart]


class Charts(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of a report."""

    overview: list[Chart]
    runs: list[RunCharts]


def build(title: str, runs: Sequence[RunPaths]) -> ReportData:
    results = [load_result(paths) for paths in runs]
    machines = {paths.id: machine for paths in runs if (machine := machine_of(paths))}
    groups = group_repeats(results)
    also = [per_host(groups, machines), faults_sheet(results)]
    return ReportData(
        title=title,
        results=results,
        groups=groups,
        best_configurations=best_configuration_rows(groups),
        bottlenecks=group_bottlenecks(groups),
        sheets=[*sheets(groups), *(sheet for sheet in also if sheet.rows)],
    )


def draw(report: ReportData, runs: Sequence[RunPaths]) -> Charts:
    paths = {one.id: one for one in runs}
    drawn, tests = [], []
    for chosen in choose(report.groups, report.best_configurations):
        # One run's tables at a time: they may be large.
        material = RunData(chosen.result, paths[chosen.result.run])
        with as_store_errors(paths[chosen.result.run].directory):
            drawn.append(RunCharts(chosen, charts_of(material)))
            tests.append((f"{chosen.title} ({chosen.result.run})", curve_charts.TestCurve(material)))
    both = curve_charts.together(tests)
    return Charts(overview=[*overview(report.groups), *([both] if both else [])], runs=drawn)


def charts_of(run: RunData) -> list[Chart]:
    """Those a run has data for."""
    made = [
        curve_charts.quality(run),
        curve_charts.updates_per_second(run),
        worker_charts.phase_bars(run.result),
        host_charts.host_metrics(run),
        timeline_charts.shares_over_time(run),
        timeline_charts.timeline(run),
        worker_charts.steps_per_worker(run.result),
        worker_charts.staleness(run),
    ]
    return [figure for figure in made if figure and figure.views]
