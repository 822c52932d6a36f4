"""Pictures of stored runs and of reproduced tables, written as real PNG and SVG files."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from paceline.cli.main import run_command
from paceline.pictures.draw import SUFFIXES, write_figures
from paceline.pictures.figure import Bars, Figure, Line, Panel
from paceline.pictures.recipe_figures import bars_figure
from paceline.recipes.comparison import Cell, Row
from paceline.recipes.recipe import Column, Key, Recipe

STORED_RUNS = Path(__file__).parents[1] / "contracts" / "runs"
FIGURE = Figure(
    name="both",
    title="lines and bars",
    panels=[
        Panel(y_label="loss", lines=[Line(name="a < b & c", x=[0, 1], y=[1.0, 0.5], markers=True)], marks=[0.5]),
        Panel(
            categories=["10", "20"],
            bars=[Bars(name="here", values=[1.0, None], ranges=[(0.5, 2.0), None]),
                  Bars(name="published", values=[2.0, 3.0], published=True)],
            log_y=True,
        ),
    ],
)  # fmt: skip


def size_of_png(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_a_figure_is_written_as_png_and_svg_with_its_text(tmp_path: Path) -> None:
    png, svg = write_figures([FIGURE], tmp_path / "new", "table", SUFFIXES)
    assert (png.name, svg.name) == ("table-both.png", "table-both.svg")
    width, height = size_of_png(png)
    assert width > 500 < 2 * height
    text = " ".join(ElementTree.parse(svg).getroot().itertext())
    assert all(word in text for word in ("lines and bars", "loss", "a < b & c", "published", "10", "20"))
    first = svg.read_bytes()
    write_figures([FIGURE], tmp_path / "new", "table", SUFFIXES)
    assert svg.read_bytes() == first, "the same data gives the same file"


def test_report_writes_pictures_of_stored_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(STORED_RUNS, tmp_path / "runs")
    arguments = ["report", "modes", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "all"), "--format"]
    assert run_command([*arguments, "png,svg"]) == 0
    written = {Path(line).name for line in capsys.readouterr().out.split()}
    assert {"all-learning.png", "all-learning.svg", "all-steps-per-s.png", "all-hosts.svg"} <= written
    assert all((tmp_path / name).stat().st_size > 1_000 for name in written)
    text = " ".join(ElementTree.parse(tmp_path / "all-learning.svg").getroot().itertext())
    assert all(word in text for word in ("epoch", "global step", "training time (s)", "test loss", "accuracy (%)"))


def test_bars_have_our_values_beside_the_published_ones() -> None:
    recipe = Recipe(
        name="report9-table1", spec={}, title="by batch", keys=(Key("Mode", "strategy"), Key("Batch", "batch")),
        columns=(Column("Time (s)", "train_s"), Column("Loss", "loss")),
    )  # fmt: skip
    rows = [
        Row(("sync", "10"), (Cell(1.0, 2.0, (0.5, 1.5)), Cell(0.3, None))),
        Row(("sync", "20"), (Cell(3.0, (4.0, 6.0)), Cell(0.2, None))),
        Row(("async", "10"), (Cell(None, "a third"), Cell(0.1, None))),
    ]
    figure = bars_figure(recipe, rows)
    assert figure
    times, losses = figure.panels
    assert list(times.categories) == ["10", "20"]
    assert [(bars.name, list(bars.values)) for bars in times.bars] == [
        ("sync, here", [1.0, 3.0]), ("sync, published", [2.0, 5.0]), ("async, here", [None, None]),
    ]  # fmt: skip
    assert [bars.name for bars in losses.bars] == ["sync, here", "async, here"]
    assert times.bars[0].ranges[0] == (0.5, 1.5)


def test_without_matplotlib_pictures_are_refused_with_the_remedy(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from paceline.cli.main import run_command\n"
        f"sys.exit(run_command(['reproduce', 'report1-table3', '--pictures', {str(tmp_path)!r}]))"
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert completed.returncode == 2
    assert completed.stderr.count("\n") == 1
    assert "pip install 'paceline[pictures]'" in completed.stderr
