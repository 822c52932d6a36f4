"""Every number in a table is the one in the JSON."""

import json
from pathlib import Path
from statistics import mean

import pytest

from paceline.cli.main import run_command
from paceline.page.blocks import Table
from paceline.report.build import build
from paceline.report.page import report_page
from paceline.report.table import DataTable
from paceline.store.paths import RunPaths
from report.stored import result_of, store_run

NAMES = [
    "Time and accuracy",
    "Steps per worker",
    "CPU, memory and network",
    "Throughput",
    "Cluster layouts",
    "Hosts",
]


def row(table: DataTable, number: int = 0) -> dict[str, float | None]:
    return {name: cell.value for name, cell in zip(table.columns, table.rows[number], strict=True)}


def test_a_sweep_has_all_tables(sweep: list[RunPaths]) -> None:
    assert [table.name for table in build("sweep", sweep).tables] == NAMES


def test_numbers_are_those_of_the_result(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = store_run(runs)
    tables = {table.name: row(table) for table in build("made", [paths]).tables}
    run_command(["show", paths.id, "--runs", str(runs), "--json"])
    shown = json.loads(capsys.readouterr().out)

    quality = tables["Time and accuracy"]
    assert quality["training time (s)"] == shown["train_s"]
    assert quality["updates"] == shown["updates"]
    assert quality["time to target (s)"] == shown["reached"]["at_s"]
    assert quality["test loss"] == shown["final"]["loss"]
    assert quality["accuracy (%)"] == shown["final"]["accuracy"]
    assert [tables["Steps per worker"][w["task"]] for w in shown["workers"]] == [
        worker["steps"] for worker in shown["workers"]
    ]
    rates = tables["Throughput"]
    assert (rates["examples/s"], rates["updates/s"]) == (shown["examples_per_s"], shown["updates_per_s"])
    assert rates["time per batch (s)"] == pytest.approx(0.01)  # Each worker makes 100 steps a second.
    first = shown["hosts"][0]
    hosts = tables["Hosts"]
    assert hosts["cores used"] == first["cpu_cores_mean"]
    assert hosts["memory used (MB)"] == first["memory_mb_max"]
    assert hosts["network in (MB/s)"] == first["external"]["rx_mb_s_mean"]
    assert hosts["network out, max (MB/s)"] == first["external"]["tx_mb_s_max"]
    assert hosts["disk read (MB)"] == first["disk"]["read_mb"]
    over_hosts = tables["CPU, memory and network"]
    assert over_hosts["loopback in (MB/s)"] == mean(host["loopback"]["rx_mb_s_mean"] for host in shown["hosts"])


def test_idle_cpu_and_free_memory_are_what_the_machine_has_left(runs: Path) -> None:
    """Of 4 cores, two are busy all the time; of 8 GB, two hosts use 300 MB each."""
    hosts = row(build("made", [store_run(runs)]).tables[-1])
    assert hosts["idle CPU (%)"] == pytest.approx(0.5, abs=0.001)
    assert hosts["memory free (MB)"] == pytest.approx(7400, abs=1)


def test_repeats_are_one_row_with_median_and_range(sweep: list[RunPaths]) -> None:
    report = build("sweep", sweep)
    assert all(len(table.rows) >= 12 for table in report.tables)
    first = [result for result in map(result_of, sweep) if (result.strategy, result.layout) == ("ps-sync", "pw")]
    small = [result.examples_per_s for result in first if result.batch == 50]
    rates = next(table for table in report.tables if table.name == "Throughput")
    assert row(rates)["examples/s"] == pytest.approx(mean(small))
    assert "[" in rates.rows[0][list(rates.columns).index("examples/s")].text


def test_the_page_has_the_exact_values_of_the_tables(runs: Path, tmp_path: Path) -> None:
    paths = store_run(runs)
    report = build("made", [paths])
    tables = {section.key: section for section in report_page(report, [paths]).sections}["tables"].blocks
    found = [
        cell[1]
        for table in tables
        if isinstance(table, Table)
        for row in table.rows
        for cell in row
        if isinstance(cell, tuple)
    ]
    assert found == [c.value for t in report.tables for r in t.rows for c in r if c.value is not None]


def test_measured_links_are_listed_once_for_all_runs_that_used_them(runs: Path) -> None:
    def links(mb_s: float) -> dict[str, object]:
        pairs = [
            {"sender": "h1", "receiver": "h2", "mb_s": mb_s, "rtt_s": 0.0002, "rtt_min_s": 0.0001},
            {"sender": "h2", "receiver": "h1", "mb_s": None, "rtt_s": None, "rtt_min_s": None},
        ]
        return {"event": "links", "t_s": 0.05, "pairs": pairs, "measured_at": 1e9, "seconds": 1.0}

    paths = [store_run(runs, steps=20, events=[links(mb_s)]) for mb_s in (12.0, 12.0, 50.0)]
    table = next(table for table in build("made", paths).tables if table.name == "Links between hosts")
    shown = [[cell.text for cell in cells] for cells in table.rows]
    assert shown == [
        ["local", "h1", "h2", "12.0", "0.20", "0.10", f"{paths[0].id} and 1 more"],
        ["local", "h2", "h1", "-", "-", "-", f"{paths[0].id} and 2 more"],
        ["local", "h1", "h2", "50.0", "0.20", "0.10", paths[2].id],
    ]
