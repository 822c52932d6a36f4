"""Which traceback of user code the result of a run has."""

from pathlib import Path
from typing import Any

from report.stored import result_of, store_run

WORKLOAD = """
import numpy as np
from paceline import Model, Workload
from paceline.layers import Dense

def train(share):
    yield np.zeros((share.batch, 2), np.float32), np.zeros(share.batch, int)

WORKLOAD = Workload(name="own", model=Model((2,), (Dense(2),)), train=train, test=train, train_examples=10_000)
"""


def failed(task: str, at_s: float, traceback: str) -> dict[str, Any]:
    return {"event": "failed", "t_s": at_s, "task": task, "line": "lost", "traceback": traceback, "permanent": False}


def test_the_traceback_of_a_failure_that_was_recovered_is_not_that_of_the_run(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(WORKLOAD)
    lost, restarting = failed("w1", 2.1, "Traceback: gloo"), {"event": "restarting", "t_s": 2.2, "tasks": ["w0", "w1"]}
    recovered = store_run(tmp_path / "a", workload=str(file), events=[lost, restarting])
    assert result_of(recovered).traceback is None
    last = failed("w0", 2.3, "Traceback: the user's")
    ended = store_run(
        tmp_path / "b", workload=str(file), events=[lost, restarting, last], end=("failed", "w0 on h1 failed: lost")
    )
    assert result_of(ended).traceback == "Traceback: the user's"
