"""What is written is what is read, and nothing else is taken for a checkpoint."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from paceline.errors import StoreError
from paceline.spec.interval import Interval
from paceline.train.checkpoint import TrainingState, checkpoint_updates, encode, file_name, read, update_of
from paceline.train.checkpoint_schedule import CheckpointSchedule
from paceline.workloads.parameters import ParameterShape

SHAPES = [ParameterShape("weight", (3, 2)), ParameterShape("bias", (2,))]


def some(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {shape.name: random.random(shape.shape, np.float32) for shape in SHAPES}


@pytest.mark.parametrize("stored", [{}, {"velocity": some(2)}, {"mean": some(2), "mean_square": some(3)}])
def test_a_state_comes_back_as_it_was(tmp_path: Path, stored: dict[str, dict[str, np.ndarray]]) -> None:
    path = tmp_path / file_name(7)
    path.write_bytes(encode(TrainingState(7, some(1), stored)))
    found = read(path, SHAPES)
    assert (found.update, update_of(path)) == (7, 7)
    assert found.optimizer.keys() == stored.keys()
    pairs = [(some(1), found.values), *((stored[name], found.optimizer[name]) for name in stored)]
    for expected, given_back in pairs:
        assert expected.keys() == given_back.keys()
        assert all(np.array_equal(expected[name], given_back[name]) for name in expected)


def test_the_optimizer_of_each_worker_comes_back(tmp_path: Path) -> None:
    path = tmp_path / file_name(7)
    stored = {"velocity": some(2), "outer-velocity": some(3)}
    path.write_bytes(encode(TrainingState(7, some(1), stored, {1: {"velocity": some(4)}, 2: {"velocity": some(5)}})))
    # A worker that is not in the checkpoint has the state of the chief; the outer state is the same in all.
    for worker, seed in ((0, 2), (1, 4), (2, 5), (3, 2)):
        found = read(path, SHAPES, worker)
        assert found.optimizer.keys() == stored.keys()
        assert np.array_equal(found.optimizer["velocity"]["bias"], some(seed)["bias"])
        assert np.array_equal(found.optimizer["outer-velocity"]["bias"], some(3)["bias"])


def strange() -> dict[str, tuple[bytes, str]]:
    whole = encode(TrainingState(7, some(1), {"velocity": some(2)}))
    wrong = some(1) | {"bias": np.zeros(3, np.float32)}
    double = {name: value.astype(np.float64) for name, value in some(1).items()}
    endless = some(1) | {"bias": np.array([np.inf, 1], np.float32)}
    return {
        "pickle": (pickle.dumps(some(1)), "not a checkpoint"),
        "empty": (b"", "not a checkpoint"),
        "torn": (whole[:-4], "not a checkpoint"),
        "huge-header": (b"\xff" * 8 + whole[8:], "not a checkpoint"),
        "plain": (save(some(1)), "no update number"),
        "shape": (encode(TrainingState(7, wrong)), "'bias' is F32 [3], not F32 [2]"),
        "type": (encode(TrainingState(7, double)), "'weight' is F64"),  # type: ignore[arg-type]
        "missing": (encode(TrainingState(7, {"weight": some(1)["weight"]})), "has no 'bias'"),
        "more": (encode(TrainingState(7, some(1) | {"other": np.zeros(1, np.float32)})), "a parameter 'other'"),
        "endless": (encode(TrainingState(7, endless)), "NaN or infinite"),
    }


@pytest.mark.parametrize("kind", sorted(strange()))
def test_other_files_are_refused_with_one_line(tmp_path: Path, kind: str) -> None:
    data, line = strange()[kind]
    path = tmp_path / file_name(7)
    path.write_bytes(data)
    with pytest.raises(StoreError) as refused:
        read(path, SHAPES)
    assert line in str(refused.value)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_bytes_changed_anywhere_are_a_checkpoint_or_refused(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    whole = bytearray(encode(TrainingState(7, some(1), {"velocity": some(2)})))
    whole[at : at + len(noise)] = noise
    path = tmp_path_factory.mktemp("fuzz") / file_name(7)
    path.write_bytes(bytes(whole))
    try:
        assert read(path, SHAPES).values.keys() == some(1).keys()
    except StoreError:
        pass


def test_only_checkpoints_are_found_among_files_and_the_last_is_first() -> None:
    names = ["update-20.safetensors", "update-100.safetensors", "final.safetensors", "update-3.safetensors.partial"]
    assert checkpoint_updates(names) == [100, 20]


@given(st.integers(1, 50), st.integers(0, 200), st.lists(st.integers(1, 9), min_size=1, max_size=60))
def test_checkpoints_are_announced_before_and_never_further_apart_than_asked(
    every: int, first: int, strides: list[int]
) -> None:
    """`strides`: updates between two of the chief's steps, 1 in a synchronous run."""
    plan = CheckpointSchedule(Interval("updates", every))
    plan.written(first, 0.0)
    plan.announce(first, 0.0)
    update, made = first, first
    for stride in strides:
        update += stride
        if plan.announced:
            plan.written(update, 0.0)
            made = update
        plan.announce(update, 0.0)
        assert update - made < every + max(strides)
        if set(strides) == {1}:
            assert made == first or made % every == 0


def test_checkpoints_by_time_and_at_once() -> None:
    plan = CheckpointSchedule(Interval("seconds", 5))
    plan.written(0, 100.0)
    assert [plan.announce(1, second) for second in (101.0, 104.9, 105.0)] == [False, False, True]
    plan.written(2, 106.0)
    assert [plan.announce(3, second) for second in (110.9, 111.0)] == [False, True]
    never = CheckpointSchedule(None)
    never.written(0, 0.0)
    assert not never.announce(10**9, 1e9)
    assert never.announce(1, 1.0, at_once=True)
