"""Metrics of real runs, scraped while they go on: what is served, what the dashboard asks for, what the result says."""

import json
import re
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from live import LiveRun, until
from metrics.promql import wanted_by
from metrics.scrape import Scrape, scrape
from paceline import pipeline
from paceline.control.run_controller import Watch
from paceline.control.run_state import STALENESS_BOUNDS, RunState
from paceline.metrics.serve import serving
from paceline.metrics.sweep_state import SweepState
from paceline.plan.place import RunPlan
from paceline.spec.load import experiment
from paceline.store.result import Result

DOCS = Path(__file__).parents[2] / "docs"
PS_ASYNC = ("--strategy", "ps-async", "--layout", "pw w")


def test_the_dashboard_asks_only_for_what_a_run_serves(tmp_path: Path) -> None:
    run = LiveRun(tmp_path / "runs", *PS_ASYNC, "--stop", "seconds=6", "--eval-every", "200", "--metrics-port", "0")
    url = _told_url(run)
    first = scrape(url)
    assert "paceline_info" in first  # while everything starts

    served = until(lambda: _all_there(scrape(url)), "all that is measured")
    labels: dict[str, set[str]] = {}
    for sample in served.samples:
        labels.setdefault(sample.name, set(sample.labels)).intersection_update(sample.labels)
    for metric, needed in wanted_by(json.loads((DOCS / "grafana" / "paceline.json").read_text())):
        assert metric in labels, f"the dashboard asks for {metric}, which nobody serves"
        assert needed <= labels[metric], f"{metric} has no {needed - labels[metric]}"

    later = until(lambda: _further(scrape(url), served), "more steps")
    before = served.counters()
    fell = {series for series, value in later.counters().items() if value < before.get(series, 0)}
    assert not fell
    assert served.by("status", "paceline_run_status")["training"] == 1
    assert 0 < served.value("paceline_run_progress_ratio", rule="seconds=6") < 1
    code, result = run.result()
    assert (code, result["status"]) == (0, "ok")


def _told_url(run: LiveRun) -> str:
    assert run.process.stderr
    for line in run.process.stderr:
        if match := re.fullmatch(r"metrics: (http://127\.0\.0\.1:\d+/metrics)\n", line):
            return match[1]
    raise AssertionError("the run never said where its metrics are")


def _all_there(found: Scrape) -> Scrape | None:
    wanted = ("paceline_worker_staleness_updates_count", "paceline_run_test_loss", "paceline_host_cpu_seconds_total")
    made = found.by("worker", "paceline_worker_steps_total").values()
    return found if made and all(made) and all(name in found for name in wanted) else None


def _further(found: Scrape, before: Scrape) -> Scrape | None:
    name = "paceline_run_updates_total"
    return found if found.value(name) > before.value(name) else None


def test_the_dashboard_file_is_what_its_script_makes() -> None:
    made = runpy.run_path(str(DOCS / "dashboard.py"))
    assert made["FILE"].read_text(encoding="utf-8") == made["text"](), "run `make docs`"


class Scraping:
    """A view that asks the server while the controller is at work, and keeps the answers."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.statuses: set[str] = set()

    @contextmanager
    def __call__(self, _plan: RunPlan, _number: int, _of: int) -> Iterator[Watch]:
        scrape(self._url)  # between runs

        def watch(_moment: RunState) -> None:
            told = scrape(self._url).by("status", "paceline_run_status")
            self.statuses |= {status for status, holds in told.items() if holds}

        yield watch


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Result], Scrape, Scraping]:
    """A sweep of two runs, and what is served after it."""
    request = experiment(
        {
            "workload": "logreg", "strategy": ["allreduce", "ps-async"], "layout": "cluster", "stop": ["steps=400"],
            "eval_every": 100, "runs": str(tmp_path_factory.mktemp("runs")),
        }
    )  # fmt: skip
    sweep = SweepState()
    with serving(sweep, 0) as url:
        asking = Scraping(url)
        results = pipeline.run(request, pipeline.together(sweep.view, asking), sweep.on_result)
        return results, scrape(url), asking


def test_in_the_end_the_figures_are_those_of_the_result(finished: tuple[list[Result], Scrape, Scraping]) -> None:
    (_, result), served, asking = finished
    assert {"starting", "training"} <= asking.statuses
    assert served.value("paceline_sweep_runs") == 2
    assert served.by("status", "paceline_sweep_runs_finished_total") == {
        "ok": 2, "failed": 0, "diverged": 0, "aborted": 0, "before": 0,
    }  # fmt: skip
    assert served.by("run", "paceline_run_info", strategy="ps-async", engine="torch", layout="pw w") == {result.run: 1}
    assert served.by("status", "paceline_run_status")["ok"] == 1
    assert served.by("rule", "paceline_run_progress_ratio") == {"steps=400": 1}
    assert served.value("paceline_run_updates_total", run=result.run) == result.updates == 400
    assert served.value("paceline_run_test_accuracy_ratio") == pytest.approx(result.final.accuracy, abs=1e-6)
    assert served.value("paceline_run_test_loss") == pytest.approx(result.final.loss, abs=1e-6)
    assert served.value("paceline_run_incidents_total") == 0

    steps = served.by("worker", "paceline_worker_steps_total")
    assert steps == {worker.task: worker.steps for worker in result.workers}
    assert sum(served.by("worker", "paceline_worker_examples_total").values()) == result.examples
    for worker in result.workers:
        phases = served.by("phase", "paceline_worker_phase_seconds_total", worker=worker.task, host=worker.host)
        # What a worker did after its last step that counts is served, but not in the result.
        assert phases.keys() >= {"data", "compute", "push", "pull"}
        for phase, seconds in worker.phases.items():
            assert phases[phase] == pytest.approx(seconds, rel=0.05, abs=0.02), phase


def test_staleness_is_counted_as_the_raw_records_have_it(finished: tuple[list[Result], Scrape, Scraping]) -> None:
    (_, result), served, _ = finished
    steps = pl.read_parquet(Path(result.dir) / "steps.parquet").filter(kind="step")
    for worker in result.workers:
        told = steps.filter(task=worker.task)["staleness"]
        buckets = served.by("le", "paceline_worker_staleness_updates_bucket", worker=worker.task)
        assert {float(le) for le in buckets} == {*map(float, STALENESS_BOUNDS), float("inf")}
        for le, count in buckets.items():
            assert count == (told <= float(le)).sum()
        assert served.value("paceline_worker_staleness_updates_sum", worker=worker.task) == told.sum()
        assert served.value("paceline_worker_staleness_updates_count", worker=worker.task) == worker.steps


def test_hosts_and_tasks_are_as_the_last_samples_have_them(finished: tuple[list[Result], Scrape, Scraping]) -> None:
    (_, result), served, _ = finished
    samples = pl.read_parquet(Path(result.dir) / "samples.parquet").sort("t_s")
    for host in result.hosts:
        last = samples.filter(host=host.host).row(-1, named=True)
        of_host = {"host": host.host}
        assert served.value("paceline_host_cpu_seconds_total", **of_host) == last["cpu_s"]
        assert served.value("paceline_host_memory_bytes", **of_host) == last["memory_bytes"]
        assert (
            list(served.by("core", "paceline_host_core_busy_seconds_total", **of_host).values()) == last["cores_busy_s"]
        )
        for side in ("external", "loopback"):
            for what in ("bytes", "packets"):
                ways = served.by("direction", f"paceline_host_network_{what}_total", side=side, **of_host)
                assert ways == {"receive": last[f"{side}_rx_{what}"], "transmit": last[f"{side}_tx_{what}"]}
        disk = served.by("direction", "paceline_host_disk_bytes_total", **of_host)
        assert disk == {"read": last["disk_read_bytes"], "write": last["disk_write_bytes"]}
        tasks = {task["task"]: task for task in last["tasks"]}
        assert set(tasks) == set(host.tasks)
        for name, field in (
            ("cpu_seconds_total", "cpu_s"), ("resident_memory_bytes", "rss_bytes"), ("threads", "threads"),
            ("run_wait_seconds_total", "run_wait_s"),
        ):  # fmt: skip
            assert served.by("task", f"paceline_task_{name}", **of_host) == {t: one[field] for t, one in tasks.items()}


def test_only_the_run_under_way_has_series(finished: tuple[list[Result], Scrape, Scraping]) -> None:
    (_, result), served, _ = finished
    assert {sample.labels["run"] for sample in served.samples if "run" in sample.labels} == {result.run}
    for sample in served.samples:
        if not sample.name.startswith(("paceline_info", "paceline_sweep")):
            assert {"run", "workload", "engine", "strategy"} <= sample.labels.keys(), sample.name
