"""A report as one HTML file that needs nothing else: styles, script, plotly and data are in it."""

from collections.abc import Sequence
from importlib.resources import files

import msgspec

from paceline.report.bottlenecks import GroupBottleneck, in_words, runner_up
from paceline.report.build import Charts, ReportData, RunCharts
from paceline.report.chart import Chart
from paceline.report.html import Html, join, json_script, tag
from paceline.report.table import DataTable

_OPEN_VERDICTS = 4
# Nothing is fetched and nothing sent, whatever a name in the page may try.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def page(report: ReportData, gallery: Charts) -> str:
    sections = [
        ("answer", "The answer", _answer(report), []),
        ("verdicts", "What set the pace", _verdicts(report.bottlenecks), []),
        ("figures", "Figures", *_figures("all", gallery.overview)),
        ("runs", "Runs in detail", *_runs(gallery, len(report.results))),
        ("tables", "Tables", *_tables(report.sheets)),
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
    runs, configurations = len(report.results), len(report.groups)
    workloads = ", ".join(dict.fromkeys(result.title for result in report.results))
    times = sorted(_moment(result.started_at) for result in report.results)
    bad = sum(result.status != "ok" for result in report.results)
    counts = f"{_many(runs, 'run')} of {_many(configurations, 'configuration')}"
    when = times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
    return tag(
        "header",
        tag("h1", report.title),
        tag("div", f"{workloads} · {counts} · {when}", class_="soft"),
        tag("div", f"{_many(bad, 'run')} did not end well.", class_="bad") if bad else Html(),
    )


def _contents(sections: Sequence[tuple[str, str, Html, list[tuple[str, str]]]]) -> Html:
    items = []
    for key, title, _, parts in sections:
        inner = tag("ul", *(tag("li", tag("a", name, href=f"#{part}")) for part, name in parts)) if parts else Html()
        items.append(tag("li", tag("a", title, href=f"#{key}"), inner))
    return tag("nav", tag("ul", *items), aria_label="Contents")


def _answer(report: ReportData) -> Html:
    if not report.best_configurations:
        return tag("p", "No run ended well, so there is nothing to choose between.")
    said = tag(
        "ul", *(tag("li", tag("b", one.goal), one.sentence) for one in report.best_configurations), class_="answers"
    )
    if len(report.groups) < 2:
        return said
    rows = [[one.goal, one.winner, one.figure, one.second, one.by] for one in report.best_configurations]
    return join(said, _plain_table(["goal", "best", "its figure", "second", "ahead by"], rows))


def _plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    head = tag("tr", *(tag("th", column) for column in columns))
    return _box(tag("table", head, *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows)))


def _verdicts(found: Sequence[GroupBottleneck]) -> Html:
    return join(*(_verdict(one, opened=len(found) <= _OPEN_VERDICTS) for one in found))


def _verdict(one: GroupBottleneck, *, opened: bool) -> Html:
    verdict = one.verdict
    width = Html(f'<span class="share"><i style="width:{min(1.0, max(0.0, verdict.share)) * 100:.0f}%"></i></span>')
    repeats = f" ({one.agree} of {len(one.runs)} repeats)" if len(one.runs) > 1 else ""
    parts = [
        _list("Evidence", verdict.evidence),
        _list("Try", verdict.remedy),
        _list("Runner-up", [runner_up(verdict)] if verdict.runner_up else []),
        _list("Did not end well", one.failures, class_="bad"),
        _list("Disturbed on purpose", one.disturbed),
        _list("Incidents", one.incidents, class_="bad"),
        tag("div", f"Runs: {', '.join(one.runs)}", class_="soft"),
    ]
    summary = tag("summary", width, tag("b", one.title), ": ", in_words(verdict), repeats)
    return tag("details", summary, tag("div", *parts), open=opened or bool(one.failures))


def _list(title: str, items: Sequence[str], class_: str | None = None) -> Html:
    return (
        tag("div", tag("b", title), tag("ul", *(tag("li", item) for item in items)), class_=class_) if items else Html()
    )


def _figures(place: str, figures: Sequence[Chart]) -> tuple[Html, list[tuple[str, str]]]:
    parts = [(f"{place}-{figure.key}", figure.title) for figure in figures]
    return join(*(_figure(key, figure) for (key, _), figure in zip(parts, figures, strict=True))), parts


def _figure(key: str, figure: Chart) -> Html:
    names = [view.name for view in figure.views]
    buttons = [
        tag("button", name, type="button", data_view=str(number), aria_pressed="true" if number == 0 else "false")
        for number, name in enumerate(names)
    ]
    data = {"height": figure.height, "views": msgspec.to_builtins(figure.views)}
    return tag(
        "figure",
        tag("h3", figure.title, id=key),
        tag("figcaption", figure.reading),
        tag("div", *buttons, class_="views", role="group", aria_label="What to show") if len(names) > 1 else Html(),
        tag("div", class_="plot", id=f"{key}-plot", style=f"min-height:{figure.height}px", role="group",
            aria_label=figure.title),
        json_script(f"{key}-plot-data", data),
    )  # fmt: skip


def _runs(gallery: Charts, total: int) -> tuple[Html, list[tuple[str, str]]]:
    runs = [run for run in gallery.runs if run.figures]
    if not runs:
        return Html(), []
    left_out = total - len(gallery.runs)
    note = join(
        f"Figures of {len(gallery.runs)} of {total} runs: the best for each goal, the slowest, the median and others; "
        f"{left_out} are left out here and are in the tables. ",
        tag("code", "paceline report RUN"),
        " draws any one.",
    )
    options = [tag("option", _option(run), value=f"run-{number}") for number, run in enumerate(runs)]
    choice = tag("div", tag("label", "Run shown", tag("select", *options, id="run-choice")), class_="choice")
    pages = []
    for number, run in enumerate(runs):
        place = f"run-{number}"
        # Only the first is to be seen at first: the others are drawn when they are chosen.
        pages.append(
            tag("div", _facts(run), _figures(place, run.figures)[0], id=place, class_="run", hidden=number > 0)
        )
    heading = tag("p", note, class_="note") if left_out else Html()
    return join(heading, choice if len(runs) > 1 else Html(), *pages), _figures("run-0", runs[0].figures)[1]


def _option(run: RunCharts) -> str:
    chosen = run.chosen
    return f"{chosen.result.run}: {chosen.title}" + (f" ({chosen.why})" if chosen.why else "")


def _facts(run: RunCharts) -> Html:
    result = run.chosen.result
    facts = f"{result.title} · {result.engine} · {result.strategy} · '{result.layout}' on {result.hosts_kind}"
    facts += f" · batch {result.batch}" if result.batch else ""
    state = f" · {result.status}" + (f": {result.reason}" if result.reason else "")
    return tag("p", tag("b", result.run), f" · {facts}{state} · data: {result.data}", class_="soft")


def _tables(sheets: Sequence[DataTable]) -> tuple[Html, list[tuple[str, str]]]:
    parts = [(f"table-{number}", sheet.name) for number, sheet in enumerate(sheets)]
    return join(*(_table(key, sheet) for (key, _), sheet in zip(parts, sheets, strict=True))), parts


def _table(key: str, sheet: DataTable) -> Html:
    numeric = [any(row[i].value is not None for row in sheet.rows) for i in range(len(sheet.columns))]
    classes = ["number" if is_number else None for is_number in numeric]
    head = tag("tr", *(tag("th", name, class_=class_) for name, class_ in zip(sheet.columns, classes, strict=True)))
    rows = [
        tag("tr", *(_cell(cell.text, cell.value, class_) for cell, class_ in zip(row, classes, strict=True)))
        for row in sheet.rows
    ]
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    return join(tag("h3", sheet.name, id=key), tag("p", sheet.note, class_="note"), _box(table))


def _cell(text: str, value: float | None, class_: str | None) -> Html:
    exact = None if value is None else repr(value)
    return tag("td", text, class_=class_, data_value=exact, title=exact)


def _box(table: Html) -> Html:
    return tag("div", table, class_="box", tabindex="0")


def _moment(started_at: str) -> str:
    """To the minute; the store writes UTC."""
    return f"{started_at[:10]} {started_at[11:16]} UTC" if started_at.endswith("+00:00") else started_at


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
