"""Writes the files of a report, one per requested format."""

from collections.abc import Sequence
from pathlib import Path

from paceline.errors import SpecError, StoreError, unknown
from paceline.report.build import Advance, OnMessage, build, ignore_message
from paceline.report.export import as_csv, as_json, as_markdown
from paceline.store.paths import RunPaths, write_whole

FORMATS = ("html", "md", "csv", "json")


def write_report(
    title: str,
    runs: Sequence[RunPaths],
    out: Path | None,
    formats: Sequence[str],
    advance: Advance = lambda _now, _done, _total: None,
    *,
    by_sweep: bool = False,
    on_message: OnMessage = ignore_message,
) -> list[Path]:
    """Write one file per format: `out` is the file name, or that of several without its suffix.

    `by_sweep` keeps equal configurations of different sweeps apart. `on_message` gets a line for each run that is
    damaged and left out.
    """
    targets = {kind: _target(title, out, kind, only=len(formats) == 1) for kind in formats}
    for target in targets.values():
        _check(target)
    report = build(title, runs, advance, by_sweep=by_sweep, on_message=on_message)
    for kind, target in targets.items():
        if kind == "html":
            from paceline.report.page import report_html, report_page

            text = report_html(report_page(report, runs, advance, on_message))
        elif kind == "md":
            text = as_markdown(report)
        else:
            text = (as_csv if kind == "csv" else as_json)(report.results)
        _write(target, text)
    return list(targets.values())


def parse_formats(text: str, *others: str) -> list[str]:
    """The requested formats; `others` are formats that another writer has."""
    formats = (*FORMATS, *others)
    names = list(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    if not names:
        raise SpecError(f"--format is empty; choose from {', '.join(formats)}")
    for name in names:
        if name not in formats:
            raise SpecError(unknown("format", name, formats))
    return names


def _target(title: str, out: Path | None, kind: str, *, only: bool) -> Path:
    if out is None:
        return Path(f"{title}-report.{kind}")
    return out if only else out.with_suffix(f".{kind}")


def _check(target: Path) -> None:
    """Raise an error before any work if the file cannot be created there."""
    if target.is_dir():
        raise StoreError(f"--out {target} is a directory; give the name of a file")
    if not target.parent.is_dir():
        raise StoreError(f"--out {target}: directory {target.parent} does not exist; create it or choose another")


def _write(target: Path, text: str) -> None:
    try:
        # A file name may contain bytes that are not valid Unicode; they become question marks.
        write_whole(target, text.encode("utf-8", errors="replace"))
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror}; choose another file with --out") from None
