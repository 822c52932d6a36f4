"""A state of a sweep as text for Prometheus, without a run."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from prometheus_client import generate_latest
from prometheus_client.core import CollectorRegistry

from metrics.scrape import Scrape
from paceline.control.run_state import RunState
from paceline.metrics.families import families
from paceline.metrics.sweep_state import SweepState
from paceline.pipeline import catalog
from paceline.plan.place import RunPlan, place
from paceline.recording.layout import FINAL, TRACED, RecordKind
from paceline.recording.rows import RECORD_DTYPE
from paceline.spec.load import experiment
from paceline.spec.sweep import expand


def plan_of(workload: str = "logreg", **fields: Any) -> RunPlan:
    (spec,) = expand(experiment({"workload": workload, **fields}))
    return place(spec, catalog())


def served(sweep: SweepState) -> Scrape:
    class Collector:
        collect = staticmethod(lambda: families(sweep))

    registry = CollectorRegistry()
    registry.register(Collector())
    return Scrape(generate_latest(registry).decode())


def records(*rows: tuple[RecordKind, float, Mapping[str, float]]) -> np.ndarray:
    """(kind, seconds, other fields) each."""
    made = np.zeros(len(rows), RECORD_DTYPE)
    made["staleness"] = -1
    for record, (kind, seconds, fields) in zip(made, rows, strict=True):
        record["kind"], record["end_ns"] = kind, round(seconds * 1e9)
        for name, value in fields.items():
            record[name] = value
    return made


def showing(moment: RunState) -> Scrape:
    sweep = SweepState()
    with sweep.view(moment.plan, 1, 3) as watch:
        watch(moment)
    return served(sweep)


def test_before_the_first_run_there_is_only_the_sweep() -> None:
    told = served(SweepState())
    assert told.value("paceline_sweep_runs") == 0
    assert not any("run" in sample.labels for sample in told.samples)


def test_a_run_that_starts_has_its_workers_at_zero_and_no_loss_yet() -> None:
    told = showing(RunState("logreg-1", plan_of(strategy="ps-async", layout="pw w w")))
    assert told.by("worker", "paceline_worker_steps_total") == {"w0": 0, "w1": 0, "w2": 0}
    assert "paceline_worker_loss" not in told
    assert "paceline_host_cpu_seconds_total" not in told
    assert told.by("status", "paceline_run_status")["starting"] == 1
    assert told.value("paceline_sweep_runs") == 3


def test_records_add_up_and_those_the_result_leaves_out_do_not_count() -> None:
    moment = RunState("logreg-1", plan_of(strategy="ps-async", layout="pw w", batch=50))
    step = (RecordKind.STEP, 0.3, {"loss": 0.5, "update": 7, "staleness": 4})
    moment.add_records("w1", records((RecordKind.COMPUTE, 0.25, {}), (RecordKind.PUSH, 0.05, {}), step))
    traced = (RecordKind.COMPUTE, 9.0, {"flags": TRACED})
    final = (RecordKind.EVAL, 9.0, {"flags": FINAL, "loss": 0.4, "accuracy": 0.9})
    moment.add_records("w1", records((RecordKind.COMPUTE, 0.5, {}), traced, step))
    moment.add_records("w1", records(final))
    told = showing(moment)
    assert told.by("phase", "paceline_worker_phase_seconds_total", worker="w1") == {"compute": 0.75, "push": 0.05}
    assert told.value("paceline_worker_steps_total", worker="w1") == 2
    assert told.value("paceline_worker_examples_total", worker="w1") == 100
    assert told.value("paceline_worker_staleness_updates_sum", worker="w1") == 8
    buckets = told.by("le", "paceline_worker_staleness_updates_bucket", worker="w1")
    assert (buckets["3.0"], buckets["5.0"], buckets["+Inf"]) == (0, 2, 2)
    assert told.value("paceline_run_test_accuracy_ratio") == pytest.approx(0.9)


def test_what_is_not_training_has_a_value_and_no_loss_or_examples() -> None:
    moment = RunState("matmul-1", plan_of("matmul", stop="steps=4"))
    moment.add_records("w0", records((RecordKind.STEP, 1.0, {"loss": 123.0, "update": 1})))
    told = showing(moment)
    assert told.value("paceline_worker_value", worker="w0") == 123
    assert "paceline_worker_loss" not in told
    assert told.value("paceline_worker_examples_total", worker="w0") == 0
    assert told.value("paceline_run_progress_ratio", rule="steps=4") == 0.25


def test_a_loss_that_is_no_number_and_names_with_odd_signs_can_be_read_back() -> None:
    moment = RunState('odd"\\run\n', plan_of(stop="loss=0.3"))
    moment.add_records(
        "w0", records((RecordKind.STEP, 1.0, {"loss": np.nan}), (RecordKind.EVAL, 1.0, {"loss": np.nan}))
    )
    moment.end("diverged")
    told = showing(moment)
    assert np.isnan(told.value("paceline_worker_loss", run='odd"\\run\n'))
    assert told.value("paceline_run_progress_ratio", rule="loss=0.3") == 0
    assert told.by("status", "paceline_run_status")["diverged"] == 1


def test_what_is_served_does_not_change_with_the_moment() -> None:
    moment = RunState("logreg-1", plan_of())
    sweep = SweepState()
    with sweep.view(moment.plan, 1, 1) as watch:
        watch(moment)
        moment.add_records("w0", records((RecordKind.DATA, 1.0, {}), (RecordKind.STEP, 1.0, {"staleness": 1})))
        told = served(sweep)
        assert told.value("paceline_worker_steps_total") == 0
        assert "paceline_worker_phase_seconds_total" not in told
    assert served(sweep).value("paceline_worker_steps_total") == 1  # as it was when the run was closed


def test_names_and_units_are_as_prometheus_wants_them() -> None:
    moment = RunState("logreg-1", plan_of(strategy="ps-async"))
    for family in families_of(moment):
        assert family.startswith("paceline_")
        assert not family.endswith(("_s", "_ms", "_mb", "_percent", "_count", "_sum", "_total"))


def families_of(moment: RunState) -> set[str]:
    sweep = SweepState()
    sweep.moment = moment
    found = list(families(sweep))
    assert all(family.documentation.endswith(".") for family in found)
    assert len({family.name for family in found}) == len(found)
    return {family.name for family in found}
