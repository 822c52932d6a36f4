"""Builds a report from stored runs: groups the results, finds the best configurations, compares, makes tables."""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from paceline.analyze.comparison import Comparison, compare
from paceline.analyze.load import load_readable
from paceline.analyze.machines import Machines, machines_of
from paceline.analyze.repeats import Group, run_labels
from paceline.errors import StoreError
from paceline.report.best_configuration import BestConfigurationRow, best_configuration_rows
from paceline.report.bottlenecks import GroupBottleneck, group_bottlenecks
from paceline.report.fault_marks import faults_table
from paceline.report.host_table import hosts_table, links_table
from paceline.report.table import DataTable
from paceline.report.tables import group_tables
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun

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
    comparison: Comparison


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
    comparison = compare(results, by_sweep=by_sweep)
    groups = comparison.groups
    tables = [*group_tables(groups), hosts_table(groups, machines), links_table(results)]
    tables.append(faults_table(results, run_labels(results)))
    return ReportData(
        title=title,
        results=results,
        groups=groups,
        best_configurations=best_configuration_rows(groups),
        bottlenecks=group_bottlenecks(groups, run_labels(results)),
        tables=[table for table in tables if table.rows],
        comparison=comparison,
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
