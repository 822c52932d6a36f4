"""Objects of a notebook or script become files that another process can load."""

import linecache
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline import Workload
from paceline.api.ship_code import ship_function, ship_workload
from paceline.errors import SpecError
from paceline.workloads.user_workload import load_user_workload

CELL = """
SCALE = 3

def scaled(value):
    return SCALE * value

def failing(value):
    raise KeyError(f"no column {scaled(value)}")

class Doubled:
    def __init__(self, value):
        self.value = 2 * value
"""


def notebook_cell(session: int, source: str = CELL) -> dict[str, Any]:
    """The names that a cell of a notebook defines; its file name differs in each session, as in ipykernel."""
    filename = f"/tmp/ipykernel_{session}/123.py"
    main = types.ModuleType("__main__")
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), main.__dict__)
    return main.__dict__


def run_file(path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it as a task does: the traceback is printed by Python code, which finds the lines of cells."""
    code = "import runpy, sys, traceback\ntry: runpy.run_path(sys.argv.pop(1))\nexcept Exception: traceback.print_exc()"
    command = [sys.executable, "-c", code, path, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


def test_function_with_globals_is_called_in_another_process(tmp_path: Path) -> None:
    scaled = notebook_cell(1)["scaled"]

    def show(first: int, *, second: str) -> None:
        print(scaled(first), repr(second))

    completed = run_file(ship_function(show, [14], tmp_path), "second='it is'")
    assert completed.stdout == "42 'it is'\n", completed.stderr


def test_traceback_shows_the_lines_of_the_cell(tmp_path: Path) -> None:
    completed = run_file(ship_function(notebook_cell(1)["failing"], [2], tmp_path))
    assert 'File "cell-' in completed.stderr
    assert 'raise KeyError(f"no column {scaled(value)}")' in completed.stderr
    assert completed.stderr.rstrip().endswith("KeyError: 'no column 6'")


def test_same_code_has_the_same_file_in_the_next_session(tmp_path: Path) -> None:
    first, second = (ship_function(notebook_cell(session)["Doubled"], [1], tmp_path) for session in (1, 22))
    changed = ship_function(notebook_cell(3, CELL.replace("2 * value", "4 * value"))["Doubled"], [1], tmp_path)
    assert first == second
    assert changed != first


def workload(**fields: Any) -> Workload:
    def train(_share: object) -> list[Any]:
        return [(np.zeros((2, 4)), np.zeros(2))]

    make: Callable[[], object] = notebook_cell(1)["Doubled"]
    own: dict[str, Any] = {"name": "nb", "torch": make, "train": train, "train_examples": 2}
    return Workload(**(own | fields))


def test_workload_is_loaded_from_its_file(tmp_path: Path) -> None:
    path = ship_workload(workload(lr=0.25), tmp_path)
    loaded = load_user_workload(path)
    assert (loaded.name, loaded.lr) == ("nb", 0.25)
    assert loaded.torch
    assert type(loaded.torch).__name__ == "type"


def test_module_beside_the_notebook_is_sent_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_helper.py").write_text("FACTOR = 5\n\ndef product(value):\n    return FACTOR * value\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_helper  # type: ignore[import-not-found]

    def show() -> None:
        print(own_helper.product(8))

    path = ship_function(show, [], tmp_path / "runs")
    (tmp_path / "own_helper.py").unlink()
    assert run_file(path).stdout == "40\n"


def test_wrong_workload_is_refused_before_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the workload: give exactly one of dataset, data and train"):
        ship_workload(workload(dataset="mnist"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_object_that_cannot_be_sent_is_refused_in_one_line(tmp_path: Path) -> None:
    lock = threading.Lock()
    with pytest.raises(
        SpecError, match=r"the function .* cannot be sent to hosts: .*lock.*; make files, locks"
    ) as error:
        ship_function(lambda: lock, [], tmp_path)
    assert "\n" not in str(error.value)


def test_large_data_in_a_function_is_refused(tmp_path: Path) -> None:
    data = np.random.default_rng(1).random(2_000_000)
    with pytest.raises(SpecError, match=r"holds 2\d MB of data, and 13 MB can be sent with it: read large"):
        ship_function(lambda: data, [], tmp_path)
