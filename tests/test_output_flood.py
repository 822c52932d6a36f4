"""A user's code that prints without end and fails with an enormous message leaves a run of ordinary size."""

from pathlib import Path

import paceline
from paceline.agent.task_log import FIRST_BYTES, LAST_BYTES

WORKLOAD = """
import sys
import numpy as np
from paceline import Model, Workload
from paceline.layers import Dense

def train(share):
    print("the first line")
    for _ in range(60):
        print("x" * 2**20)
    print("the last line")
    sys.stdout.flush()
    raise ValueError("very long: " + "y" * 70_000_000)  # More than fits into a message.

WORKLOAD = Workload(name="flood", summary="", model=Model((2,), (Dense(2),)), train=train, train_examples=100, lr=0.1)
"""


def test_output_and_error_of_a_flooding_task_are_shortened(tmp_path: Path) -> None:
    (tmp_path / "flood.py").write_text(WORKLOAD)
    (result,) = paceline.run(str(tmp_path / "flood.py"), runs=str(tmp_path / "runs"), stop="steps=5", check=False)
    directory = Path(result.dir)
    assert result.status == "failed"
    assert result.reason is not None
    assert result.reason.startswith("ValueError: very long: yyy")
    assert len(result.reason) < 3_000
    log = (directory / "logs" / "w0.log").read_bytes()
    assert FIRST_BYTES + LAST_BYTES < len(log) < FIRST_BYTES + LAST_BYTES + 1_000
    assert b"the first line" in log[:1_000]
    assert b"bytes of output are left out here" in log[FIRST_BYTES - 1 : FIRST_BYTES + 1_000]
    assert (directory / "events.jsonl").stat().st_size < 500_000
    assert (directory / "result.json").stat().st_size < 500_000
