"""The state of a run at this moment, from records as they come in."""

import numpy as np
import pytest

from paceline.available import catalog
from paceline.control.run_state import RunState
from paceline.plan.place import place
from paceline.recording.layout import STEP
from paceline.recording.rows import RECORD_DTYPE
from paceline.spec.load import experiment
from paceline.spec.sweep import expand


def moment() -> RunState:
    (spec,) = expand(experiment({"workload": "logreg", "strategy": "ps-async", "layout": "pw w"}))
    return RunState("logreg-1", place(spec, catalog()))


def steps(first_s: float, each_s: float, count: int) -> np.ndarray:
    made = np.zeros(count, RECORD_DTYPE)
    made["kind"], made["staleness"] = STEP, -1
    starts_s = first_s + each_s * np.arange(count)
    made["start_ns"], made["end_ns"] = 1e9 * starts_s, 1e9 * (starts_s + each_s)
    return made


def test_a_worker_has_a_pace_from_its_first_shipment_on() -> None:
    now = moment()
    now.add_records("w0", steps(7.0, each_s=0.1, count=8))
    assert now.steps_per_s("w0") == pytest.approx(10)
    now.add_records("w1", steps(7.2, each_s=0.05, count=1))
    assert now.updates_per_s == pytest.approx(30)


def test_a_run_is_ending_when_the_first_worker_has_finished() -> None:
    now = moment()
    assert not now.is_ending
    now.finished("w1")
    assert now.is_ending


def test_the_pace_is_that_of_the_last_seconds() -> None:
    now = moment()
    now.add_records("w0", steps(0.0, each_s=0.1, count=10))
    now.add_records("w0", steps(1.0, each_s=0.2, count=5))
    assert now.steps_per_s("w0") == pytest.approx(7.5)
    for second in range(2, 6):
        now.add_records("w0", steps(float(second), each_s=0.2, count=5))
    assert now.steps_per_s("w0") == pytest.approx(5)
