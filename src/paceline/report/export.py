"""Writes a report as Markdown, CSV or JSON, for papers, spreadsheets and scripts."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

import msgspec

from paceline.errors import printable
from paceline.present.bottleneck import second_cause
from paceline.report.best_configuration import COLUMNS, nothing_ranked
from paceline.report.bottlenecks import GroupBottleneck
from paceline.report.build import ReportData
from paceline.store.result import Result, encode

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that a spreadsheet takes for a formula."""
_MEASURED = ("train_s", "updates_per_s", "examples_per_s", "other_cores", "verdict.share", "workers.", "hosts.")
"""Beginnings of the paths of values that are measured during the training."""
_NAME_KEYS = ("task", "host")
_NUMBERED = ("incidents", "faults")
"""Lists whose items are numbered in CSV columns, since a task or host may occur in several."""


def as_json(results: Sequence[Result]) -> str:
    """A list of the objects that `paceline show --json` prints."""
    return "[\n" + ",\n".join(encode(result).decode() for result in results) + "\n]\n"


def as_csv(results: Sequence[Result]) -> str:
    """One row per run; one column per value, named by its path in the JSON: `workers.w0.steps`."""
    rows = [_measured_fields(result) for result in results]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(printable, columns))
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    return text.getvalue()


def _measured_fields(result: Result) -> dict[str, Any]:
    """The values of a result by path. Of a run without a step nothing was measured: its zeros are left out."""
    fields = dict(flat_fields(msgspec.to_builtins(result)))
    if any(worker.steps for worker in result.workers):
        return fields
    return {path: None if value == 0.0 and path.startswith(_MEASURED) else value for path, value in fields.items()}


def as_markdown(report: ReportData) -> str:
    best = report.best_configurations
    parts = [f"# {_text(report.title)}", "## Best configuration per goal"]
    parts.append(
        "\n".join(f"- {_text(row.goal)}: {_text(row.finding)}" for row in best) or nothing_ranked(report.groups)
    )
    if len(report.groups) > 1 and best:
        parts.append(_table(COLUMNS, [row.cells for row in best]))
    parts += ["## Bottleneck by configuration", *map(_bottleneck, report.bottlenecks), "## Tables"]
    for table in report.tables:
        rows = [[cell.text for cell in row] for row in table.rows]
        parts += [f"### {_text(table.name)}", _text(table.note), _table(table.columns, rows)]
    return "\n\n".join(parts) + "\n"


def _bottleneck(bottleneck: GroupBottleneck) -> str:
    lines = [f"**{_text(bottleneck.title)}**: {_text(bottleneck.summary)}", ""]
    lines += [f"- {heading}: {_text(item)}" for heading, items in bottleneck.lists for item in items]
    second = second_cause(bottleneck.verdict)
    return "\n".join([*lines, *([f"- Second cause: {_text(second)}"] if second else [])])


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell if cell == '---' else _text(cell) for cell in line)} |" for line in lines)


def _text(text: str) -> str:
    """Any text, escaped so that Markdown shows it unchanged: no markup, no HTML, no end of a table cell."""
    flat = printable(" ".join(text.split())).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;")
    for character in "|*_`[]":
        flat = flat.replace(character, f"\\{character}")
    return flat


def flat_fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """`{"a": {"b": 1}}` -> a.b = 1. Items of lists are named by their task or host, else numbered."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat_fields(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for number, inner in enumerate(value):
            name = next((inner[key] for key in _NAME_KEYS if path not in _NUMBERED and key in inner), number)
            yield from flat_fields(inner, f"{path}.{name}")
    elif isinstance(value, list):
        yield path, " ".join(map(str, value))
    else:
        yield path, value


def _without_formula(value: Any) -> Any:
    """Text that starts like a formula gets a leading apostrophe, so that no spreadsheet evaluates it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


def _cell(value: Any) -> Any:
    """A value for CSV: text has no control characters, which a terminal could obey, and is no formula."""
    return _without_formula(printable(value) if isinstance(value, str) else value)
