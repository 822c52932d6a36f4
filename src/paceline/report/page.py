"""A report as a page: the data that the front end draws, and the file that contains both."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.bottleneck.explain import MEANINGS
from paceline.errors import StoreError
from paceline.page.blocks import Block, Choice, Facts, Option, Page, Text, WhatIfRequest
from paceline.page.offline import offline_html
from paceline.present import labels
from paceline.present.numbers import count
from paceline.report import curve_charts, flame_chart, host_charts, timeline_charts, worker_charts
from paceline.report.build import Advance, OnMessage, ReportData, ignore_message
from paceline.report.run_data import RunData
from paceline.report.sections import ReportContext, build_sections
from paceline.report.selection import SelectedRun, select_runs
from paceline.report.what_if import what_if_blocks
from paceline.store.paths import RunPaths
from paceline.store.run import as_store_errors

CAUSES = sorted(labels.cause(cause) for cause in MEANINGS)
"""Names of all causes, from which the reader chooses in teaching mode."""


def report_html(page: Page) -> str:
    """The file of a report."""
    data = {"mode": "report", "causes": CAUSES, "page": msgspec.to_builtins(page)}
    return offline_html(f"{page.title}: Paceline report", data)


def report_page(
    report: ReportData,
    runs: Sequence[RunPaths],
    advance: Advance = lambda _now, _done, _total: None,
    on_message: OnMessage = ignore_message,
    *,
    ask_for_predictions: bool = False,
) -> Page:
    """The page of a report; a run whose tables are damaged has no charts.

    `ask_for_predictions`: a server makes the predictions for other settings when a reader asks for them.
    """
    paths = {str(run.directory): run for run in runs}
    options, test_curves = [], []
    all_selected = select_runs(report.groups, report.best_configurations)
    for number, selected in enumerate(all_selected):
        advance("making charts of runs", number, len(all_selected))
        # Only the step and sample tables of one run are in memory at a time: they may be large.
        data = RunData(selected.result, paths[selected.result.dir])
        try:
            with as_store_errors(selected.label):
                blocks, curve = run_blocks(data), curve_charts.TestCurve(data)
        except StoreError as error:
            on_message(f"without charts: {error}")
            continue
        if blocks:
            options.append(Option(label=_label(selected), blocks=[_facts(selected), *blocks]))
        test_curves.append((f"{selected.title} ({selected.label})", curve))
    advance("predicting other settings", 0, 0)
    context = ReportContext(
        report=report,
        test_curves=curve_charts.test_curves_of_runs(test_curves),
        runs=_runs(options, len(all_selected), len(report.results)),
        what_if=_what_if(report, runs, paths, ask=ask_for_predictions),
    )
    failed = sum(result.status != "ok" for result in report.results)
    return Page(
        title=report.title,
        subtitle=_subtitle(report),
        problems=[f"{count(failed, 'run')} did not succeed."] if failed else [],
        sections=build_sections(context),
    )


def _what_if(report: ReportData, runs: Sequence[RunPaths], paths: dict[str, RunPaths], *, ask: bool) -> Sequence[Block]:
    if ask:
        return [WhatIfRequest(runs=[run.id for run in runs])] if any(one.batch for one in report.results) else []
    return what_if_blocks(report.groups, report.best_configurations, paths)


def run_blocks(run: RunData) -> list[Block]:
    """The charts for which a run has data."""
    charts: list[Block | None] = [
        curve_charts.quality(run),
        curve_charts.updates_per_second(run),
        worker_charts.phase_bars(run.result),
        timeline_charts.timeline(run),
        timeline_charts.shares_over_time(run),
        flame_chart.flames(run),
        host_charts.host_metrics(run),
        worker_charts.steps_per_worker(run.result),
        worker_charts.staleness(run),
    ]
    return [chart for chart in charts if chart]


def _runs(options: Sequence[Option], selected: int, total: int) -> list[Block]:
    if not options:
        return []
    choice = Choice(label="Run shown", options=options)
    if selected == total:
        return [choice]
    note = (
        f"Charts of {selected} of {total} runs: the best for each goal, the slowest, the one with the median "
        "throughput and others. The tables contain all runs; paceline report RUN draws the charts of any run."
    )
    return [Text(text=note, tone="soft"), choice]


def _label(run: SelectedRun) -> str:
    return f"{run.label}: {run.title}" + (f" ({run.why})" if run.why else "")


def _facts(selected: SelectedRun) -> Facts:
    result = selected.result
    rows = [
        ("run", selected.label),
        ("status", result.status + (f": {result.reason}" if result.reason else "")),
        ("workload", result.title),
        ("engine", result.engine),
        ("strategy", result.strategy),
        ("layout", f"{result.layout} on {result.hosts_kind} hosts"),
        ("batch", str(result.batch) if result.batch else ""),
        ("data", result.data),
        ("started", _to_the_minute(result.started_at)),
        ("directory", result.dir),
    ]
    return Facts(title="", rows=[(label, value) for label, value in rows if value])


def _subtitle(report: ReportData) -> str:
    workloads = ", ".join(dict.fromkeys(result.title for result in report.results))
    times = sorted(_to_the_minute(result.started_at) for result in report.results)
    counts = f"{count(len(report.results), 'run')} of {count(len(report.groups), 'configuration')}"
    when = times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
    return f"{workloads} · {counts} · {when}"


def _to_the_minute(started_at: str) -> str:
    """`2026-01-02T03:04:05+00:00` -> `2026-01-02 03:04 UTC`."""
    return f"{started_at[:10]} {started_at[11:16]} UTC" if started_at.endswith("+00:00") else started_at
