"""A report as one HTML file without external resources: styles, scripts, plotly and data are embedded."""

from collections.abc import Sequence
from importlib.resources import files

import msgspec

from paceline.present.bottleneck import second_cause
from paceline.present.numbers import count
from paceline.report.best_configuration import COLUMNS, nothing_ranked
from paceline.report.bottlenecks import GroupBottleneck
from paceline.report.build import Charts, ReportData, RunCharts
from paceline.report.chart import Chart
from paceline.report.html import Html, join, json_script, tag
from paceline.report.table import DataTable

_MOST_OPEN_BOTTLENECKS = 4
"""With more configurations, their bottlenecks are collapsed at first."""
# The browser fetches nothing and sends nothing, even if a name in the page contained markup.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_PROBLEMS = ("Failed runs", "Incidents")

Links = list[tuple[str, str]]
"""Id and title of the parts of a section, for the contents."""
Section = tuple[str, str, Html, Links]
"""Id, title, contents and parts of a section."""


def page(report: ReportData, charts: Charts) -> str:
    sections: list[Section] = [
        ("best", "Best configuration per goal", _best_configurations(report), []),
        ("bottlenecks", "Bottleneck by configuration", _bottlenecks(report.bottlenecks), []),
        ("charts", "Charts", *_charts("all", charts.overview)),
        ("runs", "Runs in detail", *_runs(charts, len(report.results))),
        ("tables", "Tables", *_tables(report.tables)),
    ]
    shown = [section for section in sections if section[2]]
    body = tag(
        "div",
        _head(report),
        _contents(shown),
        tag("main", *(tag("section", tag("h2", title, id=key), content) for key, title, content, _ in shown)),
        class_="page",
    )
    return "<!doctype html>\n" + tag("html", _document_head(report.title), tag("body", body, *_scripts()), lang="en")


def _document_head(title: str) -> Html:
    metas = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    )
    return tag("head", Html(metas), tag("title", f"{title}: Paceline report"), tag("style", Html(_file("page.css"))))


def _scripts() -> list[Html]:
    from plotly.offline import get_plotlyjs

    return [tag("script", Html(get_plotlyjs())), tag("script", Html(_file("page.js")))]


def _file(name: str) -> str:
    return (files("paceline.report") / name).read_text(encoding="utf-8")


def _head(report: ReportData) -> Html:
    workloads = ", ".join(dict.fromkeys(result.title for result in report.results))
    times = sorted(_to_the_minute(result.started_at) for result in report.results)
    failed = sum(result.status != "ok" for result in report.results)
    counts = f"{count(len(report.results), 'run')} of {count(len(report.groups), 'configuration')}"
    when = times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
    return tag(
        "header",
        tag("h1", report.title),
        tag("div", f"{workloads} · {counts} · {when}", class_="soft"),
        tag("div", f"{count(failed, 'run')} did not succeed.", class_="bad") if failed else Html(),
    )


def _contents(sections: Sequence[Section]) -> Html:
    items = []
    for key, title, _, parts in sections:
        inner = tag("ul", *(tag("li", tag("a", name, href=f"#{part}")) for part, name in parts)) if parts else Html()
        items.append(tag("li", tag("a", title, href=f"#{key}"), inner))
    return tag("nav", tag("ul", *items), aria_label="Contents")


def _best_configurations(report: ReportData) -> Html:
    best = report.best_configurations
    if not best:
        return tag("p", nothing_ranked(report.groups))
    goals = tag("ul", *(tag("li", tag("b", row.goal), row.finding) for row in best), class_="goals")
    if len(report.groups) < 2:
        return goals
    return join(goals, _plain_table(COLUMNS, [row.cells for row in best]))


def _plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """A table of text; its last column may wrap."""
    head = tag("tr", *(tag("th", column) for column in columns))
    body = [tag("tr", *(tag("td", cell) for cell in row), tag("td", last, class_="wrap")) for *row, last in rows]
    return _box(tag("table", head, *body))


def _bottlenecks(bottlenecks: Sequence[GroupBottleneck]) -> Html:
    return join(*(_bottleneck(one, opened=len(bottlenecks) <= _MOST_OPEN_BOTTLENECKS) for one in bottlenecks))


def _bottleneck(bottleneck: GroupBottleneck, *, opened: bool) -> Html:
    verdict = bottleneck.verdict
    bar = Html(f'<span class="share"><i style="width:{min(1.0, max(0.0, verdict.share)) * 100:.0f}%"></i></span>')
    second = second_cause(verdict)
    parts = [
        *(_list(heading, items, class_="bad" if heading in _PROBLEMS else None) for heading, items in bottleneck.lists),
        _list("Second cause", [second] if second else []),
        tag("div", f"Runs: {', '.join(bottleneck.runs)}", class_="soft"),
    ]
    summary = tag("summary", bar, tag("b", bottleneck.title), f" · {bottleneck.summary}")
    return tag("details", summary, tag("div", *parts), open=opened or bool(bottleneck.failures))


def _list(title: str, items: Sequence[str], class_: str | None = None) -> Html:
    return (
        tag("div", tag("b", title), tag("ul", *(tag("li", item) for item in items)), class_=class_) if items else Html()
    )


def _charts(prefix: str, charts: Sequence[Chart]) -> tuple[Html, Links]:
    links = [(f"{prefix}-{chart.key}", chart.title) for chart in charts]
    return join(*(_chart(key, chart) for (key, _), chart in zip(links, charts, strict=True))), links


def _chart(key: str, chart: Chart) -> Html:
    names = [view.name for view in chart.views]
    buttons = [
        tag("button", name, type="button", data_view=str(number), aria_pressed="true" if number == 0 else "false")
        for number, name in enumerate(names)
    ]
    data = {"height": chart.height, "views": msgspec.to_builtins(chart.views)}
    return tag(
        "figure",
        tag("h3", chart.title, id=key),
        tag("figcaption", chart.caption),
        tag("div", *buttons, class_="views", role="group", aria_label="View") if len(names) > 1 else Html(),
        tag("div", class_="plot", id=f"{key}-plot", style=f"min-height:{chart.height}px", role="group",
            aria_label=chart.title),
        json_script(f"{key}-plot-data", data),
    )  # fmt: skip


def _runs(charts: Charts, total: int) -> tuple[Html, Links]:
    runs = [run for run in charts.runs if run.charts]
    if not runs:
        return Html(), []
    note = join(
        f"Charts of {len(charts.runs)} of {total} runs: the best for each goal, the slowest, the one with the median "
        "throughput and others. The tables contain all runs; ",
        tag("code", "paceline report RUN"),
        " draws the charts of any run.",
    )
    options = [tag("option", _option(run), value=f"run-{number}") for number, run in enumerate(runs)]
    choice = tag("div", tag("label", "Run shown", tag("select", *options, id="run-choice")), class_="choice")
    pages = []
    for number, run in enumerate(runs):
        prefix = f"run-{number}"
        # Only the first run is visible at first; the charts of the others are drawn when they are selected.
        content = join(_run_summary(run), _charts(prefix, run.charts)[0])
        pages.append(tag("div", content, id=prefix, class_="run", hidden=number > 0))
    heading = tag("p", note, class_="note") if len(charts.runs) < total else Html()
    return join(heading, choice if len(runs) > 1 else Html(), *pages), _charts("run-0", runs[0].charts)[1]


def _option(charts: RunCharts) -> str:
    run = charts.run
    return f"{run.label}: {run.title}" + (f" ({run.why})" if run.why else "")


def _run_summary(charts: RunCharts) -> Html:
    result = charts.run.result
    text = f"{result.title} · {result.engine} · {result.strategy} · '{result.layout}' on {result.hosts_kind} hosts"
    text += f" · batch {result.batch}" if result.batch else ""
    status = f" · {result.status}" + (f": {result.reason}" if result.reason else "")
    return tag("p", tag("b", charts.run.label), f" · {text}{status} · data: {result.data}", class_="soft")


def _tables(tables: Sequence[DataTable]) -> tuple[Html, Links]:
    links = [(f"table-{number}", table.name) for number, table in enumerate(tables)]
    return join(*(_table(key, table) for (key, _), table in zip(links, tables, strict=True))), links


def _table(key: str, table: DataTable) -> Html:
    numeric = [any(row[i].value is not None for row in table.rows) for i in range(len(table.columns))]
    classes = ["number" if is_number else None for is_number in numeric]
    head = tag("tr", *(tag("th", name, class_=class_) for name, class_ in zip(table.columns, classes, strict=True)))
    rows = [
        tag("tr", *(_cell(cell.text, cell.value, class_) for cell, class_ in zip(row, classes, strict=True)))
        for row in table.rows
    ]
    element = tag("table", tag("thead", head), tag("tbody", *rows))
    return join(tag("h3", table.name, id=key), tag("p", table.note, class_="note"), _box(element))


def _cell(text: str, value: float | None, class_: str | None) -> Html:
    """The exact value is an attribute, for scripts, and appears when the pointer is over the cell."""
    exact = None if value is None else repr(value)
    return tag("td", text, class_=class_, data_value=exact, title=exact)


def _box(table: Html) -> Html:
    return tag("div", table, class_="box", tabindex="0")


def _to_the_minute(started_at: str) -> str:
    """`2026-01-02T03:04:05+00:00` -> `2026-01-02 03:04 UTC`."""
    return f"{started_at[:10]} {started_at[11:16]} UTC" if started_at.endswith("+00:00") else started_at
