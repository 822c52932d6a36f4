"""The notebook of the documentation runs, and its page shows it."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("nbclient")
MODULE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "notebook.py"))


def test_page_is_made_of_the_stored_notebook() -> None:
    assert MODULE["page"](MODULE["read_notebook"]()) == MODULE["PAGE"].read_text(), "run `make notebook`"


def test_stored_notebook_has_outputs_and_no_error() -> None:
    cells = [cell for cell in MODULE["read_notebook"]().cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert len(outputs) >= 6
    assert all(output.output_type != "error" for output in outputs)


def test_notebook_runs(tmp_path: Path) -> None:
    notebook = MODULE["read_notebook"]()
    MODULE["execute"](notebook, str(tmp_path))
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    progress = next(output for output in shown if output.output_type == "display_data")
    # Progress is one output of the cell, with a line for each finished run at the end.
    lines = progress.data["text/plain"].splitlines()
    assert [line.partition(",")[0] for line in lines] == ["circle-1: ok", "circle-2: ok"]
    assert {"steps.parquet", "result.json"} <= {path.name for path in (tmp_path / "runs" / "circle-2").iterdir()}
    assert any("bottleneck" in output.get("data", {}).get("text/html", "") for output in shown)
