"""The sections of a report. Each is one function that returns its blocks; a section without blocks is left out.

Another module adds a section by adding its function to `SECTIONS`. A kind of block that only this section has is
drawn by a function that its own script adds to `Paceline.blocks` (see `page/web/blocks.js`).
"""

from collections.abc import Callable, Sequence

import msgspec

from paceline.analyze.caveats import caveats
from paceline.analyze.difference import Difference, interval_text
from paceline.analyze.metrics import ACCURACY, STALENESS, TO_TARGET, informative_metrics
from paceline.analyze.repeats import different_updates
from paceline.analyze.sync_async import COSTS, strategy_families
from paceline.page.blocks import Block, Goal, Goals, Items, Lines, Section, Table, Text
from paceline.present.glossary import GLOSSARY
from paceline.present.notes import run_notes
from paceline.present.numbers import MISSING, percent
from paceline.report import overview_charts
from paceline.report.best_configuration import nothing_ranked
from paceline.report.build import ReportData
from paceline.report.conditions import conditions_block
from paceline.report.table import DataTable
from paceline.report.why import why_blocks
from paceline.report.worker_charts import phase_bars


class ReportContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the sections are made of."""

    report: ReportData
    test_curves: Lines | None
    """Of all runs that are shown in detail."""
    runs: Sequence[Block]
    """The charts of single runs."""
    what_if: Sequence[Block] = ()
    """Predictions for other settings."""


class SectionBuilder(msgspec.Struct, frozen=True):
    key: str
    title: str
    build: Callable[[ReportContext], Sequence[Block | None]]


def build_sections(context: ReportContext) -> list[Section]:
    return [
        Section(key=section.key, title=section.title, blocks=blocks)
        for section in SECTIONS
        if (blocks := [block for block in section.build(context) if block is not None])
    ]


def answer(context: ReportContext) -> Sequence[Block | None]:
    """The best configuration per goal, the metrics with the bottleneck of each configuration, and the conditions."""
    report = context.report
    if len(report.groups) == 1:
        return _answer_of_one(report)
    goals = [
        Goal(goal=row.goal, winner=row.winner, value=row.value_with_unit, lead=row.lead, significant=row.significant)
        for row in report.best_configurations
    ]
    head: Block = Goals(rows=goals) if goals else Text(text=nothing_ranked(report.groups))
    chart = overview_charts.metrics_by_configuration(report.groups, report.best_configurations)
    return [head, chart, conditions_block(report.groups)]


def _answer_of_one(report: ReportData) -> Sequence[Block | None]:
    (group,) = report.groups
    (bottleneck,) = report.bottlenecks
    result = (group.ok or group.results)[0]
    goals = [Goal(goal="bottleneck", winner=bottleneck.summary, value="", lead="")]
    goals += [Goal(goal=row.goal, winner="", value=row.value_with_unit, lead="") for row in report.best_configurations]
    if result.reached:
        reached = f"{result.reached.at_s:.3g} s, {result.reached.at_update:,} updates"
        goals.append(Goal(goal=f"{result.reached.rule} reached after", winner="", value=reached, lead=""))
    phases = phase_bars(result) if len(group.results) == 1 else overview_charts.phases(report.groups)
    return [Goals(rows=goals), phases, conditions_block(report.groups)]


def baseline(context: ReportContext) -> Sequence[Block | None]:
    """What `paceline compare` says about each configuration and its baseline."""
    comparison = context.report.comparison
    metrics = informative_metrics(comparison.groups)
    rows: list[list[str | tuple[str, float | None]]] = []
    for pair in comparison.pairs:
        for metric in metrics:
            if found := pair.difference(metric):
                unlike = (
                    different_updates(pair.group, pair.base, pair.name, pair.base_name) if metric is TO_TARGET else ""
                )
                text = found.phrase + (f"; {unlike}" if unlike else "")
                gain = "better" if found.is_better else "worse"
                ratio = (f"{found.ratio.value:.3f}", found.ratio.value)
                outcome = gain if found.outcome == "differs" else found.outcome
                rows.append([pair.name, pair.base_name, metric.title, ratio, _interval(found), outcome, text])
    table = Table(
        key="baseline",
        title="Compared with the baseline",
        note="Ratio of the medians, configuration / baseline. The interval contains the true ratio with 95 % "
        "confidence; without repeats there is none.",
        columns=["configuration", "baseline", "metric", "ratio", "95 % interval", "outcome", "in words"],
        rows=rows,
    ) if rows else None  # fmt: skip
    return [table]


def _interval(difference: Difference) -> str:
    return interval_text(difference.ratio) if difference.ratio.is_known else MISSING


def notes(context: ReportContext) -> Sequence[Block | None]:
    """What a reader must know before trusting the numbers."""
    report = context.report
    lines = caveats(report.comparison) if len(report.groups) > 1 or not report.groups[0].ok else []
    if len(report.results) == 1:
        lines += run_notes(report.results[0])
    return [Items(title="", items=lines) if lines else None]


def trade_offs(context: ReportContext) -> Sequence[Block | None]:
    return overview_charts.trade_offs(context.report.groups, context.report.best_configurations)


def scaling(context: ReportContext) -> Sequence[Block | None]:
    tables: list[Block] = []
    for number, one in enumerate(context.report.comparison.scalings):
        constant = {"weak": "constant batch per worker", "strong": "constant total batch"}[one.kind]
        rows: list[list[str | tuple[str, float | None]]] = []
        for point in one.points:
            cells: list[str | tuple[str, float | None]] = [point.name, (str(point.workers), point.workers)]
            for gain in (point.throughput, point.to_target):
                cells += _gain_cells(gain, point.efficiency(gain) if gain else None)
            rows.append(cells)
        tables.append(
            Table(
                key=f"scaling-{number}",
                title=f"{one.kind.capitalize()} scaling ({constant}), baseline {one.base_name}",
                note="Efficiency: speed-up divided by the ratio of workers; 100 % is ideal.",
                columns=["configuration", "workers", f"speed-up in {one.metric.title}", "95 % interval", "efficiency",
                         "speed-up to target", "95 % interval ", "efficiency "],
                rows=rows,
            )
        )  # fmt: skip
    return [overview_charts.scaling(context.report.groups), *tables, overview_charts.batches(context.report.groups)]


def _gain_cells(gain: Difference | None, efficiency: float | None) -> list[str | tuple[str, float | None]]:
    if gain is None:
        return [MISSING, MISSING, MISSING]
    known = gain.gain.is_known and not gain.gain.is_too_wide
    text = f"{gain.gain.value:.2f}×" + (" (too short)" if gain.too_short else "")
    return [(text, gain.gain.value), interval_text(gain.gain) if known else MISSING, (percent(efficiency), efficiency)]


_UPDATE = (
    "What an update is: in a synchronous strategy all n workers make one update together, from n batches; in an "
    "asynchronous one every worker makes its own update from one batch. At the same learning rate a synchronous update "
    "therefore uses n times the examples but moves the parameters about as far, so updates/s cannot be compared: time, "
    "updates and examples to the same target can. --set lr_scale=linear scales the learning rate with the examples of "
    "an update."
)


def sync_async(context: ReportContext) -> Sequence[Block | None]:
    comparison = context.report.comparison
    if not comparison.sync_async_comparisons:
        return []
    families = strategy_families(comparison.groups, comparison.names)
    # Without a target to reach, its columns would be empty.
    costs = [metric for metric in COSTS if any(metric.values(group) for family in families for group, _ in family)]
    rows: list[list[str | tuple[str, float | None]]] = []
    for family in families:
        for group, name in family:
            first = group.first
            cells: list[str | tuple[str, float | None]] = [name, "synchronous" if first.synchronous else "asynchronous"]
            cells += [
                (f"{first.examples_per_update:,}", first.examples_per_update),
                f"{first.lr:g}" if first.lr else MISSING,
            ]
            for metric in (*costs, STALENESS, ACCURACY):
                spread = group.spread(metric.read) if metric.values(group) else None
                cells.append((metric.text(group), spread.median if spread else None))
            rows.append(cells)
    columns = ["configuration", "updates are", "examples/update", "learning rate"]
    columns += [metric.title for metric in (*costs, STALENESS, ACCURACY)]
    title = "Cost of reaching the target" if costs else "Updates of each configuration"
    table = Table(key="sync-async", title=title, note="", columns=columns, rows=rows)
    sentences = [pair.sentence for pair in comparison.sync_async_comparisons if pair.sentence]
    return [Text(text=_UPDATE), table, Items(title="", items=sentences) if sentences else None]


def phases(context: ReportContext) -> Sequence[Block | None]:
    chart = overview_charts.phases(context.report.groups) if len(context.report.groups) > 1 else None
    return [chart, context.test_curves]


def tables(context: ReportContext) -> Sequence[Block | None]:
    return [table_block(number, table) for number, table in enumerate(context.report.tables)]


def table_block(number: int, table: DataTable) -> Table:
    rows = [[cell.text if cell.value is None else (cell.text, cell.value) for cell in row] for row in table.rows]
    return Table(key=f"table-{number}", title=table.name, note=table.note, columns=table.columns, rows=rows)


def glossary(_context: ReportContext) -> Sequence[Block | None]:
    return [Items(title="", items=[f"{word}: {meaning}" for word, meaning in GLOSSARY.items()])]


SECTIONS: tuple[SectionBuilder, ...] = (
    SectionBuilder("answer", "Answer", answer),
    SectionBuilder("bottlenecks", "Bottlenecks, and why", lambda context: why_blocks(context.report.bottlenecks)),
    SectionBuilder("notes", "Notes", notes),
    SectionBuilder("trade-offs", "Trade-offs", trade_offs),
    SectionBuilder("baseline", "Baseline", baseline),
    SectionBuilder("scaling", "Scaling", scaling),
    SectionBuilder("sync-async", "Synchronous and asynchronous", sync_async),
    SectionBuilder("what-if", "What if", lambda context: context.what_if),
    SectionBuilder("phases", "Phases and learning", phases),
    SectionBuilder("runs", "Runs in detail", lambda context: context.runs),
    SectionBuilder("tables", "Tables", tables),
    SectionBuilder("glossary", "Glossary", glossary),
)
"""In the order of the page."""
