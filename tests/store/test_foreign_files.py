"""Files that are not regular, or have unexpected contents, do not stop a command and do not hide other runs."""

import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts.golden import paceline
from fuzz.mutations import quick_and_thorough
from paceline.analyze.load import load_result
from paceline.cli.main import run_command
from paceline.errors import StoreError
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from report.stored import store_run

FILES = ("result", "events", "steps", "samples", "journal")


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    return store_run(tmp_path / "runs", name="odd", steps=20)


def _replace(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_runs_with_files_that_are_not_regular_do_not_stop_a_listing(tmp_path: Path, kind: str) -> None:
    """In a process of its own, with a deadline: reading a pipe would never end."""
    runs = tmp_path / "runs"
    good = store_run(runs, name="good", steps=20)
    for file in FILES:
        odd = store_run(runs, name=f"odd-{file}", steps=20)
        if file != "result":
            odd.result.unlink()
        _replace(getattr(odd, file), kind)
        partial = odd.result.with_name("result.json.partial")
        os.mkfifo(partial)
    listed = paceline("ls", "--runs", runs)
    assert listed.returncode == 0, listed.stderr
    assert good.id in listed.stdout
    for file in ("result", "events", "steps", "samples"):
        (line,) = (line for line in listed.stderr.splitlines() if f"odd-{file}-1 is damaged" in line)
        assert "not a regular file" in line or "Is a directory" in line
    assert "internal error" not in listed.stderr


def test_a_file_that_is_too_large_is_not_read(run: RunPaths) -> None:
    os.truncate(run.result, 2**40)
    with pytest.raises(StoreError, match=r"run odd-1 is damaged: cannot read result.json: it is larger than 64 MiB"):
        load_result(run)


def test_a_result_of_a_newer_version_is_refused_in_one_line(run: RunPaths) -> None:
    fields = json.loads(run.result.read_text())
    # Nothing is known about the other keys of a newer version, not even their types.
    run.result.write_text(json.dumps({**fields, "schema": 99, "status": ["new"]}))
    with pytest.raises(StoreError, match=r"made by a newer version of Paceline .*schema 99.*: update Paceline"):
        _ = StoredRun(run).result


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value inside a JSON document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


WRONG: tuple[Any, ...] = (None, True, -1, 10**400, 1e308, "text", [], [1], {}, {"a": 1}, [[]])


@quick_and_thorough(10, 1_000)
def test_a_wrong_type_in_a_result_is_damage_in_one_line(
    tmp_path: Path, run: RunPaths, cases: int, capsys: pytest.CaptureFixture[str]
) -> None:
    store_run(tmp_path / "runs", name="odd", steps=20)
    good = json.loads(run.result.read_text())
    settings = [("settings", name) for name in ("stop", "fault", "cpus", "lr", "link")]
    paths, rng = [*settings, *_paths(good)], random.Random(1)
    chosen = settings + rng.choices(paths, k=cases)
    out = str(tmp_path / "report.md")
    for path in chosen:
        document = json.loads(json.dumps(good))
        inner = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value = rng.choice(WRONG)
        run.result.write_text(json.dumps(document))
        for command in ("ls", "show odd-1", "compare odd", f"report odd --format md,csv --out {out}"):
            code = run_command([*command.split(), "--runs", str(tmp_path / "runs")])
            captured = capsys.readouterr()
            assert code in (0, 2), (path, value, command, captured.err)
            assert "internal error" not in captured.err, (path, value, command, captured.err)
        assert run_command(["show", "odd-2", "--runs", str(tmp_path / "runs")]) == 0


def test_a_damaged_run_of_a_sweep_is_left_out_with_a_message(
    tmp_path: Path, run: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    good = store_run(tmp_path / "runs", name="odd", steps=20)
    document = json.loads(run.result.read_text())
    run.result.write_text(json.dumps({**document, "settings": {"stop": 5}}))
    for command in (["compare", "odd"], ["report", "odd", "--out", str(tmp_path / "page.html")]):
        assert run_command([*command, "--runs", str(tmp_path / "runs")]) == 0
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("left out: run odd-1 is damaged: ")
    assert good.id in (tmp_path / "page.html").read_text()
    assert run_command(["show", "odd-1", "--runs", str(tmp_path / "runs")]) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="file names with control characters")
def test_exports_contain_no_escape_sequences(tmp_path: Path) -> None:
    escape = "\x1b]0;title\x07\x1b[31m\x9b"
    failed = store_run(tmp_path / "runs", name="odd", steps=20, end=("failed", f"broke {escape}"), data=f"d{escape}")
    out = tmp_path / "report"
    assert run_command(["report", str(failed.directory), "--format", "md,csv", "--out", str(out)]) == 0
    for suffix in ("md", "csv"):
        text = out.with_suffix(f".{suffix}").read_text()
        assert "broke" in text
        assert not {"\x1b", "\x07", "\x9b"} & set(text)
