from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from paceline.available import catalog
from paceline.control.progress import progress
from paceline.control.run_state import RunState
from paceline.control.unreached_targets import PLATEAU_EVALUATIONS, is_at_plateau, plateau_incident
from paceline.plan.place import place
from paceline.recording.reader import RecordReader
from paceline.recording.recorder import Recorder, clock_ns
from paceline.recording.rows import as_written
from paceline.spec.load import experiment
from paceline.spec.sweep import expand


def moment_of(*stop: str, **fields: Any) -> RunState:
    (spec,) = expand(experiment({"workload": "logreg", "stop": list(stop), **fields}))
    return RunState("logreg-1", place(spec, catalog()))


def test_a_run_that_has_not_begun_has_made_none_of_its_way() -> None:
    stop = ("steps=10", "epochs=2", "seconds=5", "loss=0.3", "accuracy=0.9")
    assert progress(moment_of(*stop)) == dict.fromkeys(stop, 0.0)


def test_each_rule_has_a_way_of_its_own() -> None:
    moment = moment_of("steps=10", "epochs=2", "loss=0.3", "accuracy=0.8", batch=100)
    moment.workers["w0"].update = 6
    moment.evaluation = (6, 0.6, 0.4)
    assert progress(moment) == pytest.approx(
        {"steps=10": 0.6, "epochs=2": 6 / (2 * moment.plan.updates_per_epoch), "loss=0.3": 0.5, "accuracy=0.8": 0.5}
    )


def add_evaluations(state: RunState, tmp_path: Path, losses: Iterable[float]) -> None:
    recorder = Recorder(tmp_path / "records")
    for number, loss in enumerate(losses):
        recorder.evaluation(clock_ns(), 100 * number, loss, 0.5, final=False)
    state.add_records("w0", as_written(RecordReader(tmp_path / "records").new()))


def test_a_run_without_improvement_is_said_to_be_at_a_plateau(tmp_path: Path) -> None:
    state = moment_of("loss=0.3", "plateau=100")
    add_evaluations(state, tmp_path, [0.95, 0.9, *[0.91] * (PLATEAU_EVALUATIONS - 1)])
    assert plateau_incident(state) is None
    add_evaluations(state, tmp_path, [0.95])
    assert progress(state)["plateau=100"] == PLATEAU_EVALUATIONS / 100
    assert plateau_incident(state) == (
        "no improvement for 50 evaluations (best: loss 0.9000, accuracy 50.00% at update 100): the run may never reach "
        "loss=0.3; --stop plateau=N ends such a run"
    )
    before = state.snapshot()
    add_evaluations(state, tmp_path, [0.8])
    assert plateau_incident(state) is None
    assert is_at_plateau(before)


def test_a_run_without_a_target_has_no_plateau(tmp_path: Path) -> None:
    state = moment_of("steps=100", eval_every=1)
    add_evaluations(state, tmp_path, [0.9] * 200)
    assert not is_at_plateau(state)


@pytest.mark.parametrize(("loss", "share"), [(0.0, 1.0), (0.2, 1.0), (float("inf"), 0.0), (float("nan"), 0.0)])
def test_the_way_is_never_more_than_all_of_it_and_no_number_is_none_of_it(loss: float, share: float) -> None:
    moment = moment_of("loss=0.3")
    moment.evaluation = (1, loss, float("nan"))
    assert progress(moment) == {"loss=0.3": share}
