"""Whether the frameworks of engines can be imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.engines.import_check import import_errors


def broken_module(folder: Path, name: str, code: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(code)


def test_a_module_that_cannot_be_imported_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_module(tmp_path, "broken_one", "raise ImportError('libone.so: cannot open shared object file')")
    broken_module(tmp_path, "broken_two", "import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert import_errors(["broken_one", "broken_two", "json"]) == {
        "broken_one": "ImportError: libone.so: cannot open shared object file",
        "broken_two": "the process was ended by signal 6",
    }


def test_doctor_does_not_call_an_engine_ok_whose_framework_cannot_be_imported(tmp_path: Path) -> None:
    broken_module(tmp_path, "torch", "raise ImportError('libtorch_cpu.so: cannot open shared object file')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "paceline", "doctor"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=True)
    (line,) = [line for line in completed.stdout.splitlines() if "engine torch" in line]
    assert line.startswith("--")
    assert "importing it fails (ImportError: libtorch_cpu.so: cannot open shared object file)" in line
