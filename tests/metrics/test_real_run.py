"""Metrics of real runs, scraped during the runs, compared with the dashboard and with the stored results."""

import json
import re
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from metrics.promql import metrics_used_by
from metrics.scrape import Scrape, scrape
from paceline import pipeline
from paceline.control.run_controller import StateListener
from paceline.control.run_state import STALENESS_BOUNDS, RunState
from paceline.metrics.serve import serving
from paceline.metrics.sweep_state import SweepState
from paceline.plan.place import RunPlan
from paceline.spec.load import experiment
from paceline.store.result import Result
from support.live_run import LiveRun, wait_for

DOCS = Path(__file__).parents[2] / "docs"
PS_ASYNC = ("--strategy", "ps-async", "--layout", "pw w")


def test_run_serves_every_metric_and_label_that_the_dashboard_uses(tmp_path: Path) -> None:
    run = LiveRun(tmp_path / "runs", *PS_ASYNC, "--stop", "seconds=6", "--eval-every", "200", "--metrics-port", "0")
    url = _printed_url(run)
    first = scrape(url)
    assert "paceline_info" in first  # Served while the tasks still start.

    served = wait_for(lambda: _complete(scrape(url)), "all metrics are served")
    labels: dict[str, set[str]] = {}
    for sample in served.samples:
        labels.setdefault(sample.name, set(sample.labels)).intersection_update(sample.labels)
    for metric, needed in metrics_used_by(json.loads((DOCS / "grafana" / "paceline.json").read_text())):
        assert metric in labels, f"the dashboard uses {metric}, which is not served"
        assert needed <= labels[metric], f"{metric} has no {needed - labels[metric]}"

    later = wait_for(lambda: _has_more_updates(scrape(url), served), "more updates")
    before = served.counters()
    decreased = {series for series, value in later.counters().items() if value < before.get(series, 0)}
    assert not decreased
    assert served.by("status", "paceline_run_status")["training"] == 1
    assert 0 < served.value("paceline_run_progress_ratio", rule="seconds=6") < 1
    code, result = run.result()
    assert (code, result["status"]) == (0, "ok")


def _printed_url(run: LiveRun) -> str:
    assert run.process.stderr
    for line in run.process.stderr:
        if match := re.fullmatch(r"metrics: (http://127\.0\.0\.1:\d+/metrics)\n", line):
            return match[1]
    raise AssertionError("the run did not print the URL of its metrics")


def _complete(scraped: Scrape) -> Scrape | None:
    names = ("paceline_worker_staleness_updates_count", "paceline_run_test_loss", "paceline_host_cpu_seconds_total")
    steps = scraped.by("worker", "paceline_worker_steps_total").values()
    return scraped if steps and all(steps) and all(name in scraped for name in names) else None


def _has_more_updates(scraped: Scrape, before: Scrape) -> Scrape | None:
    name = "paceline_run_updates_total"
    return scraped if scraped.value(name) > before.value(name) else None


def test_dashboard_file_is_up_to_date() -> None:
    script = runpy.run_path(str(DOCS / "dashboard.py"))
    assert script["FILE"].read_text(encoding="utf-8") == script["text"](), "run `make docs`"


class ScrapingView:
    """A view that scrapes the metrics whenever the controller calls it, and keeps the statuses it has seen."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.statuses: set[str] = set()

    @contextmanager
    def __call__(self, _plan: RunPlan, _number: int, _run_count: int) -> Iterator[StateListener]:
        scrape(self._url)  # Between runs, too.

        def listener(_state: RunState) -> None:
            values = scrape(self._url).by("status", "paceline_run_status")
            self.statuses |= {status for status, value in values.items() if value}

        yield listener


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Result], Scrape, ScrapingView]:
    """The results of a sweep of two runs, the metrics served after it, and the view that scraped during it."""
    sweep_spec = experiment(
        {
            "workload": "logreg", "strategy": ["allreduce", "ps-async"], "layout": "cluster", "stop": ["steps=400"],
            "eval_every": 100, "runs": str(tmp_path_factory.mktemp("runs")),
        }
    )  # fmt: skip
    sweep = SweepState()
    with serving(sweep, 0) as url:
        view = ScrapingView(url)
        results = pipeline.run(sweep_spec, pipeline.combine_views(sweep.view, view), sweep.on_result)
        return results, scrape(url), view


def test_final_metrics_equal_the_result(finished: tuple[list[Result], Scrape, ScrapingView]) -> None:
    (_, result), served, view = finished
    assert {"starting", "training"} <= view.statuses
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
        # Metrics also include what a worker did after its last counted step; the result does not.
        assert phases.keys() >= {"data", "compute", "push", "pull"}
        for phase, seconds in worker.phases.items():
            assert phases[phase] == pytest.approx(seconds, rel=0.05, abs=0.02), phase


def test_staleness_histogram_equals_the_step_records(finished: tuple[list[Result], Scrape, ScrapingView]) -> None:
    (_, result), served, _ = finished
    steps = pl.read_parquet(Path(result.dir) / "steps.parquet").filter(kind="step")
    for worker in result.workers:
        staleness = steps.filter(task=worker.task)["staleness"]
        buckets = served.by("le", "paceline_worker_staleness_updates_bucket", worker=worker.task)
        assert {float(le) for le in buckets} == {*map(float, STALENESS_BOUNDS), float("inf")}
        for le, count in buckets.items():
            assert count == (staleness <= float(le)).sum()
        assert served.value("paceline_worker_staleness_updates_sum", worker=worker.task) == staleness.sum()
        assert served.value("paceline_worker_staleness_updates_count", worker=worker.task) == worker.steps


def test_host_and_task_metrics_equal_the_last_samples(finished: tuple[list[Result], Scrape, ScrapingView]) -> None:
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
            for quantity in ("bytes", "packets"):
                by_direction = served.by("direction", f"paceline_host_network_{quantity}_total", side=side, **of_host)
                assert by_direction == {
                    "receive": last[f"{side}_rx_{quantity}"],
                    "transmit": last[f"{side}_tx_{quantity}"],
                }
        disk = served.by("direction", "paceline_host_disk_bytes_total", **of_host)
        assert disk == {"read": last["disk_read_bytes"], "write": last["disk_write_bytes"]}
        tasks = {task["task"]: task for task in last["tasks"]}
        assert set(tasks) == set(host.tasks)
        for name, field in (
            ("cpu_seconds_total", "cpu_s"), ("resident_memory_bytes", "rss_bytes"), ("threads", "threads"),
            ("run_wait_seconds_total", "run_wait_s"),
        ):  # fmt: skip
            assert served.by("task", f"paceline_task_{name}", **of_host) == {
                name: task[field] for name, task in tasks.items()
            }


def test_only_the_current_run_has_series(finished: tuple[list[Result], Scrape, ScrapingView]) -> None:
    (_, result), served, _ = finished
    assert {sample.labels["run"] for sample in served.samples if "run" in sample.labels} == {result.run}
    for sample in served.samples:
        if not sample.name.startswith(("paceline_info", "paceline_sweep")):
            assert {"run", "workload", "engine", "strategy"} <= sample.labels.keys(), sample.name
