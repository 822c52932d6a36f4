"""A report's files: one for each form asked for."""

from collections.abc import Sequence
from pathlib import Path

from paceline.errors import SpecError, StoreError, unknown
from paceline.report.build import build, draw
from paceline.report.export import as_csv, as_json, as_markdown
from paceline.store.paths import RunPaths, write_whole

FORMATS = ("html", "md", "csv", "json")


def write_report(title: str, runs: Sequence[RunPaths], out: Path | None, formats: Sequence[str]) -> list[Path]:
    """Write each format beside the others: `out` names the file, or the stem of several."""
    targets = {kind: _target(title, out, kind, alone=len(formats) == 1) for kind in formats}
    for target in targets.values():
        _check(target)
    report = build(title, runs)
    for kind, target in targets.items():
        if kind == "html":
            from paceline.report.page import page

            text = page(report, draw(report, runs))
        elif kind == "md":
            text = as_markdown(report)
        else:
            text = (as_csv if kind == "csv" else as_json)(report.results)
        _write(target, text)
    return list(targets.values())


def parse_formats(text: str) -> list[str]:
    names = list(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    if not names:
        raise SpecError(f"--format is empty: choose from {', '.join(FORMATS)}")
    for name in names:
        if name not in FORMATS:
            raise SpecError(unknown("format", name, FORMATS))
    return names


def _target(title: str, out: Path | None, kind: str, *, alone: bool) -> Path:
    if out is None:
        return Path(f"{title}-report.{kind}")
    return out if alone else out.with_suffix(f".{kind}")


def _check(target: Path) -> None:
    """Refuse before any work if the file cannot be there."""
    if target.is_dir():
        raise StoreError(f"{target} is a directory: give a file's name with --out")
    if not target.parent.is_dir():
        raise StoreError(f"there is no directory {target.parent}: make it, or write elsewhere with --out")


def _write(target: Path, text: str) -> None:
    try:
        # A name may hold what is no Unicode text; it is shown as a question mark.
        write_whole(target, text.encode("utf-8", errors="replace"))
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror}; write elsewhere with --out") from None
