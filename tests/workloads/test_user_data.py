"""Batches of a user's own data: at any step, over epochs, in resumed runs and in restarted workers."""

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

import paceline
from paceline.data.batches import Share
from paceline.errors import RunError
from paceline.pipeline import resume
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from paceline.workloads.user_data import UserStream

SHARE = Share(batch=2, workers=1, index=0, seed=1)


def numbered(number: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full((2, 1), number, np.float32), np.full(2, number)


class Numbered:
    """A sequence of batches that remembers which of them were read."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        self.read.append(number)
        return numbered(number)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(1, 7), st.booleans())
def test_a_step_has_the_same_batch_whatever_was_read_before(steps: list[int], epoch: int, indexed: bool) -> None:
    def train(_share: Share) -> Any:
        return Numbered(epoch) if indexed else (numbered(number) for number in range(epoch))

    stream = UserStream(train, SHARE)
    assert [int(stream.at(step).target[0]) for step in steps] == [step % epoch for step in steps]


def test_epochs_of_different_lengths_follow_each_other() -> None:
    lengths = iter((2, 3, 1))
    stream = UserStream(lambda _: [numbered(number) for number in range(next(lengths))], SHARE)
    assert [int(stream.at(step).target[0]) for step in range(6)] == [0, 1, 0, 1, 2, 0]


def test_only_the_batches_that_are_needed_are_read_from_a_sequence() -> None:
    epochs: list[Numbered] = []

    def train(_share: Share) -> Any:
        epochs.append(Numbered(1_000))
        return epochs[-1]

    stream = UserStream(train, SHARE)
    assert [int(stream.at(step).target[0]) for step in (2_500, 2_501)] == [500, 501]
    assert [epoch.read for epoch in epochs] == [[], [], [500, 501]]


@pytest.mark.parametrize("empty", [[], iter(())])
def test_no_batches_at_all_is_an_error(empty: Any) -> None:
    with pytest.raises(RunError, match="train returned no batches"):
        UserStream(lambda _: empty, SHARE).at(3)


INTERRUPTED = '''
from pathlib import Path

import numpy as np
from paceline import Model, TensorFunction, Workload
from paceline.data.batches import Batch
from paceline.layers import Dense

MODEL, DATA_KIND = "given below"
GO_ON = Path(__file__).with_name("go-on")

def batch(share, number):
    """Batch 25 of worker 0 cannot be read until the file GO_ON exists."""
    if number == 25 and share.index == 0 and not GO_ON.exists():
        raise OSError("the file is damaged")
    x = np.random.default_rng([share.seed, share.index, number]).normal(size=(share.batch, 3)).astype(np.float32)
    return x, x @ np.array([[1.0], [2.0], [3.0]], np.float32)

def generated(share):
    for number in range(32):
        yield batch(share, number)

class Indexed:
    def __init__(self, share):
        self.share = share
    def __len__(self):
        return 32
    def __getitem__(self, number):
        return batch(self.share, number)

class Stream:
    def __init__(self, share):
        self.share = share
    def at(self, step):
        x, y = batch(self.share, step % 32)
        return Batch((x,), y)

class Data:
    stream = Stream
    def test(self):
        return []

def module():
    from torch import nn
    return nn.Linear(3, 1)

def keras_model():
    import keras
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])

def line(values, x):
    import tensorflow as tf
    return tf.matmul(x, values["w"])

MODELS = {
    "layers": {"model": Model((3,), (Dense(1),), "squared")},
    "torch": {"torch": module, "loss": "squared"},
    "keras": {"tensorflow": keras_model, "loss": "squared"},
    "tensorflow": {"tensorflow": lambda: TensorFunction(lambda seed: {"w": np.zeros((3, 1))}, line), "loss": "squared"},
}
DATA = {"generator": {"train": generated}, "sequence": {"train": Indexed}, "object": {"data": Data}}
WORKLOAD = Workload(name="interrupted", **MODELS[MODEL], **DATA[DATA_KIND], train_examples=32 * 20, lr=0.02)
'''


@pytest.mark.parametrize(
    ("model", "kind", "strategy", "layout"),
    [
        ("layers", "generator", "ps-sync", "pw w"),
        ("torch", "sequence", "single", "w"),
        pytest.param("tensorflow", "object", "single", "w", marks=pytest.mark.slow),
        pytest.param("keras", "generator", "allreduce", "w w", marks=pytest.mark.slow),
        pytest.param("torch", "object", "allreduce", "w w", marks=pytest.mark.slow),
    ],
)
def test_resumed_run_on_user_data_gives_the_parameters_of_an_uninterrupted_one(
    tmp_path: Path, model: str, kind: str, strategy: str, layout: str
) -> None:
    file = tmp_path / "interrupted.py"
    file.write_text(INTERRUPTED.replace('"given below"', f'"{model}", "{kind}"'))
    fields: dict[str, Any] = {
        "engine": "tensorflow" if model in ("tensorflow", "keras") else "torch",
        "strategy": strategy, "layout": layout, "batch": 10, "stop": "steps=40", "checkpoint_every": 10,
    }  # fmt: skip
    (interrupted,) = paceline.run(str(file), runs=str(tmp_path / "cut"), check=False, **fields)
    assert interrupted.status == "failed"
    assert "OSError: the file is damaged" in (interrupted.reason or "")
    (tmp_path / "go-on").touch()
    resumed = resume(RunPaths(Path(interrupted.dir)), view=_no_view)
    (uninterrupted,) = paceline.run(str(file), runs=str(tmp_path / "whole"), **fields)
    assert (resumed.status, resumed.updates) == ("ok", 40)
    expected, actual = (
        load_file(Path(run.dir) / "checkpoints" / "final.safetensors") for run in (uninterrupted, resumed)
    )
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, atol=1e-5)


NUMBERED = """
import os
from pathlib import Path

import numpy as np
from paceline import Model, Workload
from paceline.layers import Dense

HERE = Path(__file__).parent
OPEN = []

def train(share):
    # After 400 batches, w0 and the first process of w1 wait until w1 was started again: the run cannot end before.
    waits = True
    if share.index == 1:
        first = HERE / "first-process-of-w1"
        if not first.exists():
            first.write_text(str(os.getpid()))
        elif first.read_text() != str(os.getpid()):
            waits = False
            OPEN.append(os.open(HERE / "w1-was-restarted", os.O_RDWR))
    for number in range(100_000):
        if waits and number == 400:
            os.close(os.open(HERE / "w1-was-restarted", os.O_RDONLY))
        yield np.zeros((share.batch, 1), np.float32), np.full((share.batch, 1), number, np.float32)

# The outputs stay 0, since the inputs are 0 and the learning rate is tiny: the loss of a step tells its batch.
MODEL = Model((1,), (Dense(1),), "squared")
WORKLOAD = Workload(name="numbered", model=MODEL, train=train, train_examples=10**6, lr=1e-30)
"""


@pytest.mark.parametrize(("strategy", "steps"), [("ps-async", 3_000), ("ps-sync", 1_500)])
def test_a_restarted_worker_continues_with_its_next_batch(tmp_path: Path, strategy: str, steps: int) -> None:
    file = tmp_path / "numbered.py"
    file.write_text(NUMBERED)
    # To open a FIFO for reading waits until another process has opened it for writing.
    os.mkfifo(tmp_path / "w1-was-restarted")
    (result,) = paceline.run(
        str(file), runs=str(tmp_path / "runs"), strategy=strategy, layout="pw w", batch=4, stop=f"steps={steps}",
        on_failure="restart", fault="kill w1 at step 300",
    )  # fmt: skip
    assert result.status == "ok", result.reason
    run = StoredRun(RunPaths(Path(result.dir)))
    assert any(event.get("tasks") == ["w1"] for event in run.events if event["event"] == "restarting")
    made = run.steps.filter(pl.col("kind") == "step")
    number = (made["loss"] * 2).sqrt()
    np.testing.assert_allclose(number.to_numpy(), made["step"].to_numpy(), rtol=1e-5)
    assert made.filter(pl.col("task") == "w1")["step"].n_unique() > 100


def _no_view(*_: object) -> AbstractContextManager[Any]:
    return nullcontext(lambda _state: None)
