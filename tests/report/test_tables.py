"""Every number in a table is the one in the JSON."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from statistics import mean

import pytest

from paceline.cli.main import run_command
from paceline.report.build import build
from paceline.report.table import DataTable
from paceline.store.paths import RunPaths
from report.stored import result_of, store_run

NAMES = [
    "Time and accuracy by mode and batch size",
    "Iterations per worker",
    "CPU, memory and network by batch size",
    "Examples/s and s/batch",
    "Cluster structures compared",
    "Per-host averages",
]


def row(sheet: DataTable, number: int = 0) -> dict[str, float | None]:
    return {name: cell.value for name, cell in zip(sheet.columns, sheet.rows[number], strict=True)}


def test_all_tables_of_the_evaluations_are_there(sweep: list[RunPaths]) -> None:
    assert [sheet.name for sheet in build("sweep", sweep).sheets] == NAMES


def test_numbers_are_those_of_the_result(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = store_run(runs)
    sheets = {sheet.name: row(sheet) for sheet in build("made", [paths]).sheets}
    run_command(["show", paths.id, "--runs", str(runs), "--json"])
    shown = json.loads(capsys.readouterr().out)

    quality = sheets["Time and accuracy by mode and batch size"]
    assert quality["time s"] == shown["train_s"]
    assert quality["updates"] == shown["updates"]
    assert quality["to target s"] == shown["reached"]["at_s"]
    assert quality["test loss"] == shown["final"]["loss"]
    assert quality["accuracy %"] == shown["final"]["accuracy"]
    assert [sheets["Iterations per worker"][w["task"]] for w in shown["workers"]] == [
        worker["steps"] for worker in shown["workers"]
    ]
    paces = sheets["Examples/s and s/batch"]
    assert (paces["examples/s"], paces["updates/s"]) == (shown["examples_per_s"], shown["updates_per_s"])
    assert paces["s/batch"] == pytest.approx(0.01)  # Each worker makes 100 steps a second.
    first = shown["hosts"][0]
    hosts = sheets["Per-host averages"]
    assert hosts["cores used"] == first["cpu_cores_mean"]
    assert hosts["memory used MB"] == first["memory_mb_max"]
    assert hosts["external in MB/s"] == first["external"]["rx_mb_s_mean"]
    assert hosts["external out, max MB/s"] == first["external"]["tx_mb_s_max"]
    assert hosts["disk read MB"] == first["disk"]["read_mb"]
    over_hosts = sheets["CPU, memory and network by batch size"]
    assert over_hosts["loopback in MB/s"] == mean(host["loopback"]["rx_mb_s_mean"] for host in shown["hosts"])


def test_what_a_host_left_is_what_it_had_less_what_was_used(runs: Path) -> None:
    """Of 4 cores, two are busy all the time; of 8 GB, two hosts use 300 MB each."""
    hosts = row(build("made", [store_run(runs)]).sheets[-1])
    assert hosts["idle CPU %"] == pytest.approx(0.5, abs=0.001)
    assert hosts["memory free MB"] == pytest.approx(7400, abs=1)


def test_repeats_are_one_row_with_their_mean(sweep: list[RunPaths]) -> None:
    report = build("sweep", sweep)
    assert all(len(sheet.rows) >= 12 for sheet in report.sheets)
    first = [result for result in map(result_of, sweep) if (result.strategy, result.layout) == ("ps-sync", "pw")]
    small = [result.examples_per_s for result in first if result.batch == 50]
    paces = next(sheet for sheet in report.sheets if sheet.name == "Examples/s and s/batch")
    assert row(paces)["examples/s"] == pytest.approx(mean(small))
    assert "±" in paces.rows[0][list(paces.columns).index("examples/s")].text


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.values: list[float] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if (value := dict(attrs).get("data-value")) is not None:
            self.values.append(float(value))


def test_the_page_holds_the_tables_numbers_to_the_last_digit(runs: Path, tmp_path: Path) -> None:
    paths = store_run(runs)
    page = tmp_path / "page.html"
    assert run_command(["report", paths.id, "--runs", str(runs), "--out", str(page)]) == 0
    cells = Cells()
    # Without the scripts, which are none of the parser's business.
    cells.feed(re.sub(r"<script.*?</script>", "", page.read_text(), flags=re.DOTALL))
    expected = [c.value for s in build("made", [paths]).sheets for r in s.rows for c in r if c.value is not None]
    assert cells.values == expected
