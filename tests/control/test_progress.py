from typing import Any

import pytest

from paceline.control.progress import progress
from paceline.control.run_state import RunState
from paceline.pipeline import catalog
from paceline.plan.place import place
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


@pytest.mark.parametrize(("loss", "share"), [(0.0, 1.0), (0.2, 1.0), (float("inf"), 0.0), (float("nan"), 0.0)])
def test_the_way_is_never_more_than_all_of_it_and_no_number_is_none_of_it(loss: float, share: float) -> None:
    moment = moment_of("loss=0.3")
    moment.evaluation = (1, loss, float("nan"))
    assert progress(moment) == {"loss=0.3": share}
