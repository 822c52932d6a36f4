"""A report for papers, spreadsheets and scripts: Markdown, CSV, JSON."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

import msgspec

from paceline.report.bottlenecks import GroupBottleneck, in_words, runner_up
from paceline.report.build import ReportData
from paceline.store.result import Result, encode

_FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r")
_NAMES = ("task", "host")
_NUMBERED = ("incidents", "faults")
"""Lists in which a task or host may come up again."""


def as_json(results: Sequence[Result]) -> str:
    """A list of the objects that `paceline show --json` prints."""
    return "[\n" + ",\n".join(encode(result).decode() for result in results) + "\n]\n"


def as_csv(results: Sequence[Result]) -> str:
    """One row a run; a column for every figure, named by the way to it in the JSON."""
    rows = [dict(_flat(msgspec.to_builtins(result))) for result in results]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_harmless(row.get(column)) for column in columns] for row in rows)
    return text.getvalue()


def as_markdown(report: ReportData) -> str:
    parts = [f"# {_text(report.title)}", "## The answer"]
    parts.append("\n".join(f"- {_text(one.sentence)}" for one in report.best_configurations) or "No run ended well.")
    if len(report.groups) > 1 and report.best_configurations:
        rows = [[one.goal, one.winner, one.figure, one.second, one.by] for one in report.best_configurations]
        parts.append(_table(["goal", "best", "its figure", "second", "ahead by"], rows))
    parts += ["## What set the pace", *map(_verdict, report.bottlenecks), "## Tables"]
    for sheet in report.sheets:
        rows = [[cell.text for cell in row] for row in sheet.rows]
        parts += [f"### {_text(sheet.name)}", _text(sheet.note), _table(sheet.columns, rows)]
    return "\n\n".join(parts) + "\n"


def _verdict(one: GroupBottleneck) -> str:
    lines = [f"**{_text(one.title)}**: {_text(in_words(one.verdict))}"]
    lines += [f"- evidence: {_text(line)}" for line in one.verdict.evidence]
    lines += [f"- try: {_text(line)}" for line in one.verdict.remedy]
    lines += [f"- runner-up: {_text(runner_up(one.verdict))}"] if one.verdict.runner_up else []
    lines += [f"- did not end well: {_text(line)}" for line in one.failures]
    lines += [f"- disturbed on purpose: {_text(line)}" for line in one.disturbed]
    lines += [f"- incident: {_text(line)}" for line in one.incidents]
    return "\n".join([lines[0], "", *lines[1:]])


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell if cell == '---' else _text(cell) for cell in line)} |" for line in lines)


def _text(text: str) -> str:
    """Text of anyone's in Markdown, as it is: no markup, no HTML, no end of a cell."""
    flat = " ".join(text.split()).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;")
    for mark in "|*_`[]":
        flat = flat.replace(mark, f"\\{mark}")
    return flat


def _flat(value: Any, way: str = "") -> Iterator[tuple[str, Any]]:
    """`{"a": {"b": 1}}` is a.b = 1; workers and hosts go by their names."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{way}.{key}" if way else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for number, inner in enumerate(value):
            name = next((inner[key] for key in _NAMES if way not in _NUMBERED and key in inner), number)
            yield from _flat(inner, f"{way}.{name}")
    elif isinstance(value, list):
        yield way, " ".join(map(str, value))
    else:
        yield way, value


def _harmless(value: Any) -> Any:
    """A spreadsheet runs text that begins like a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_MARKS) else value
