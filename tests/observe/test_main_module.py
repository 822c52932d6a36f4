"""A script sees the same interpreter under Paceline as under `python`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, multiprocessing, pickle, sys
import beside

class Point: pass

def square(x): return x * x

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        squares = pool.map(square, [3])
    print(json.dumps({
        "argv": sys.argv, "name": __name__, "file": __file__, "path": sys.path[0], "beside": beside.X,
        "main": sys.modules["__main__"].__dict__ is globals(), "squares": squares,
        "pickled": type(pickle.loads(pickle.dumps(Point()))).__name__, "package": __package__,
    }))
"""
UNDER_PACELINE = """
import sys
from pathlib import Path
from paceline.observe import main_module
if sys.argv[1] == "-m":
    main_module.run_module(sys.argv[2], sys.argv[3:])
else:
    main_module.run_script(Path(sys.argv[1]).absolute(), sys.argv[1], sys.argv[2:])
"""


@pytest.mark.parametrize("command", [["code/train.py", "--lr", "0.1"], ["-m", "code.train", "x y"]])
def test_a_script_sees_what_python_would_show_it(command: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "train.py").write_text(SCRIPT)
    for place in (folder, tmp_path):
        (place / "beside.py").write_text("X = 7\n")
    (tmp_path / "run.py").write_text(UNDER_PACELINE)
    by_python = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True)
    run = [sys.executable, "-P", str(tmp_path / "run.py"), *command]
    observed = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(observed.stdout) == json.loads(by_python.stdout)
