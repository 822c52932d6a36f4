"""The metric families of made-up sweep states, without a run."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from prometheus_client import generate_latest
from prometheus_client.core import CollectorRegistry

from metrics.scrape import Scrape
from paceline.available import catalog
from paceline.control.run_state import RunState
from paceline.metrics.families import families
from paceline.metrics.sweep_state import SweepState
from paceline.plan.place import RunPlan, place
from paceline.recording.layout import FINAL, TRACED, RecordKind
from paceline.recording.rows import RECORD_DTYPE
from paceline.spec.load import experiment
from paceline.spec.sweep import expand


def make_plan(workload: str = "logreg", **fields: Any) -> RunPlan:
    (spec,) = expand(experiment({"workload": workload, **fields}))
    return place(spec, catalog())


def scraped(sweep: SweepState) -> Scrape:
    class Collector:
        collect = staticmethod(lambda: families(sweep))

    registry = CollectorRegistry()
    registry.register(Collector())
    return Scrape(generate_latest(registry).decode())


def records(*rows: tuple[RecordKind, float, Mapping[str, float]]) -> np.ndarray:
    """Step records, each given as (kind, seconds, other fields)."""
    array = np.zeros(len(rows), RECORD_DTYPE)
    array["staleness"] = -1
    for record, (kind, seconds, fields) in zip(array, rows, strict=True):
        record["kind"], record["end_ns"] = kind, round(seconds * 1e9)
        for name, value in fields.items():
            record[name] = value
    return array


def scraped_run(state: RunState) -> Scrape:
    sweep = SweepState()
    with sweep.view(state.plan, 1, 3) as listener:
        listener(state)
    return scraped(sweep)


def test_before_the_first_run_only_sweep_metrics_are_served() -> None:
    scrape = scraped(SweepState())
    assert scrape.value("paceline_sweep_runs") == 0
    assert not any("run" in sample.labels for sample in scrape.samples)


def test_starting_run_has_zero_steps_and_no_loss() -> None:
    scrape = scraped_run(RunState("logreg-1", make_plan(strategy="ps-async", layout="pw w w")))
    assert scrape.by("worker", "paceline_worker_steps_total") == {"w0": 0, "w1": 0, "w2": 0}
    assert "paceline_worker_loss" not in scrape
    assert "paceline_host_cpu_seconds_total" not in scrape
    assert scrape.by("status", "paceline_run_status")["starting"] == 1
    assert scrape.value("paceline_sweep_runs") == 3


def test_records_are_summed_without_traced_and_final_ones() -> None:
    state = RunState("logreg-1", make_plan(strategy="ps-async", layout="pw w", batch=50))
    step = (RecordKind.STEP, 0.3, {"loss": 0.5, "update": 7, "staleness": 4})
    state.add_records("w1", records((RecordKind.COMPUTE, 0.25, {}), (RecordKind.PUSH, 0.05, {}), step))
    traced = (RecordKind.COMPUTE, 9.0, {"flags": TRACED})
    final = (RecordKind.EVAL, 9.0, {"flags": FINAL, "loss": 0.4, "accuracy": 0.9})
    state.add_records("w1", records((RecordKind.COMPUTE, 0.5, {}), traced, step))
    state.add_records("w0", records(final))
    scrape = scraped_run(state)
    assert scrape.by("phase", "paceline_worker_phase_seconds_total", worker="w1") == {"compute": 0.75, "push": 0.05}
    assert scrape.value("paceline_worker_steps_total", worker="w1") == 2
    assert scrape.value("paceline_worker_examples_total", worker="w1") == 100
    assert scrape.value("paceline_worker_staleness_updates_sum", worker="w1") == 8
    buckets = scrape.by("le", "paceline_worker_staleness_updates_bucket", worker="w1")
    assert (buckets["3.0"], buckets["5.0"], buckets["+Inf"]) == (0, 2, 2)
    assert scrape.value("paceline_run_test_accuracy_ratio") == pytest.approx(0.9)


def test_workload_without_training_has_a_value_but_no_loss_or_examples() -> None:
    state = RunState("matmul-1", make_plan("matmul", stop="steps=4"))
    state.add_records("w0", records((RecordKind.STEP, 1.0, {"loss": 123.0, "update": 1})))
    scrape = scraped_run(state)
    assert scrape.value("paceline_worker_value", worker="w0") == 123
    assert "paceline_worker_loss" not in scrape
    assert scrape.value("paceline_worker_examples_total", worker="w0") == 0
    assert scrape.value("paceline_run_progress_ratio", rule="steps=4") == 0.25


def test_nan_loss_and_special_characters_in_names_are_served() -> None:
    state = RunState('odd"\\run\n', make_plan(stop="loss=0.3"))
    state.add_records("w0", records((RecordKind.STEP, 1.0, {"loss": np.nan}), (RecordKind.EVAL, 1.0, {"loss": np.nan})))
    state.end("diverged")
    scrape = scraped_run(state)
    assert np.isnan(scrape.value("paceline_worker_loss", run='odd"\\run\n'))
    assert scrape.value("paceline_run_progress_ratio", rule="loss=0.3") == 0
    assert scrape.by("status", "paceline_run_status")["diverged"] == 1


def test_served_snapshot_does_not_change_with_the_run_state() -> None:
    state = RunState("logreg-1", make_plan())
    sweep = SweepState()
    with sweep.view(state.plan, 1, 1) as listener:
        listener(state)
        state.add_records("w0", records((RecordKind.DATA, 1.0, {}), (RecordKind.STEP, 1.0, {"staleness": 1})))
        scrape = scraped(sweep)
        assert scrape.value("paceline_worker_steps_total") == 0
        assert "paceline_worker_phase_seconds_total" not in scrape
    assert scraped(sweep).value("paceline_worker_steps_total") == 1  # The snapshot taken when the view was closed.


def test_metric_names_follow_prometheus_conventions() -> None:
    state = RunState("logreg-1", make_plan(strategy="ps-async"))
    for family in family_names(state):
        assert family.startswith("paceline_")
        assert not family.endswith(("_s", "_ms", "_mb", "_percent", "_count", "_sum", "_total"))


def family_names(state: RunState) -> set[str]:
    sweep = SweepState()
    sweep.run_state = state
    all_families = list(families(sweep))
    assert all(family.documentation.endswith(".") for family in all_families)
    assert len({family.name for family in all_families}) == len(all_families)
    return {family.name for family in all_families}
