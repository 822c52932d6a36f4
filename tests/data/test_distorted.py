"""Distorted digits: what the warp does, and that nobody's examples depend on who else there is."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline.data import distorted, mnist
from paceline.data.batches import Share
from paceline.data.distorted import DistortedImages, placements
from paceline.data.fetch import Source
from paceline.data.hashing import key
from paceline.data.images import LabelledImages
from paceline.data.warp import PLACED, SIDE, Placement, Warp

rng = np.random.default_rng(0)
DIGITS = LabelledImages(
    train_x=rng.integers(256, size=(120, SIDE * SIDE), dtype=np.uint8),
    train_y=rng.integers(10, size=120),
    test_x=rng.integers(256, size=(30, SIDE * SIDE), dtype=np.uint8),
    test_y=rng.integers(10, size=30),
    scale=1 / 255,
)


def warped(pictures: NDArray[np.uint8], placed: Placement) -> NDArray[np.float32]:
    out = np.empty((len(pictures), PLACED * PLACED), np.float32)
    Warp(pictures)(np.arange(len(pictures)), placed, out)
    return out.reshape(-1, PLACED, PLACED)


def exactly(turn: float = 0, size: float = 1, right: float = 0, down: float = 0) -> Placement:
    return Placement(*(np.array([value], np.float64) for value in (turn, size, right, down)))


def slowly(picture: NDArray[np.uint8], placed: Placement) -> NDArray[np.float64]:
    """The textbook's way, pixel by pixel."""
    turn, size, right, down = (float(value[0]) for value in placed)
    source = np.pad(picture.reshape(SIDE, SIDE) / 255, 100)
    result = np.zeros((PLACED, PLACED))
    for row in range(PLACED):
        for column in range(PLACED):
            x, y = column - (PLACED - 1) / 2 - right, row - (PLACED - 1) / 2 - down
            from_x = (math.cos(turn) * x + math.sin(turn) * y) / size + (SIDE - 1) / 2 + 100
            from_y = (-math.sin(turn) * x + math.cos(turn) * y) / size + (SIDE - 1) / 2 + 100
            left, top = math.floor(from_x), math.floor(from_y)
            across, along = from_x - left, from_y - top
            corners = source[top : top + 2, left : left + 2]
            result[row, column] = np.array([1 - along, along]) @ corners @ np.array([1 - across, across])
    return result


def test_left_alone_a_digit_is_in_the_middle() -> None:
    (result,) = warped(DIGITS.train_x[:1], exactly())
    edge = (PLACED - SIDE) // 2
    assert np.allclose(result[edge:-edge, edge:-edge], DIGITS.train_x[0].reshape(SIDE, SIDE) / 255, atol=1e-6)
    assert result.sum() == pytest.approx(result[edge:-edge, edge:-edge].sum())


def test_shifts_are_whole_and_to_the_right_and_down() -> None:
    (still,), (moved,) = (warped(DIGITS.train_x[:1], exactly(right=x, down=y)) for x, y in ((0, 0), (3, 2)))
    assert (moved[2:, 3:] == still[:-2, :-3]).all()


@settings(max_examples=15)
@given(st.floats(-3, 3), st.floats(0.5, 2), st.floats(-8, 8), st.floats(-8, 8))
def test_it_is_a_bilinear_warp(turn: float, size: float, right: float, down: float) -> None:
    smooth = np.add.outer(np.arange(SIDE), 2 * np.arange(SIDE)) * 3
    picture = smooth.astype(np.uint8).reshape(1, -1)
    placed = exactly(turn, size, right, down)
    (result,) = warped(picture, placed)
    # A 256th of a pixel at an edge between black and white is one grey level; the corners are such edges.
    assert np.abs(result - slowly(picture[0], placed)).max() < 0.03


def test_more_pictures_than_are_warped_at_once() -> None:
    placed = placements(key(1), np.arange(120))
    together = warped(DIGITS.train_x, placed)
    for one in (0, 49, 50, 119):
        alone = warped(DIGITS.train_x[one : one + 1], Placement(*(values[one : one + 1] for values in placed)))
        assert (alone[0] == together[one]).all()


def test_placements_keep_to_their_bounds() -> None:
    placed = placements(key(3), np.arange(5_000))
    assert np.abs(placed.turn).max() <= math.pi / 3
    assert placed.size.min() >= 0.7
    assert placed.size.max() <= 1.2
    for shift in (placed.right, placed.down):
        assert (np.abs(shift) + placed.size * SIDE / 2 <= PLACED / 2 + 1e-9).all()


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 20), st.integers(0, 3))
def test_workers_together_see_what_one_sees_alone(n: int, batch: int, step: int, seed: int) -> None:
    data = DistortedImages(DIGITS)
    parts = [data.stream(Share(batch=batch, workers=n, index=i, seed=seed)).at(step) for i in range(n)]
    alone = data.stream(Share(batch=batch * n, workers=1, index=0, seed=seed)).at(step)
    assert (np.concatenate([part.inputs[0] for part in parts]) == alone.inputs[0]).all()
    assert (np.concatenate([part.target for part in parts]) == alone.target).all()


def test_epochs_and_seeds_change_how_an_example_looks() -> None:
    looks = [placements(key(seed, epoch), np.array([5])) for seed, epoch in ((1, 0), (1, 1), (2, 0), (1, 0))]
    assert looks[0] == looks[3]
    assert looks[0] != looks[1]
    assert looks[0] != looks[2]


def test_the_test_set_is_always_the_same() -> None:
    (first,), (second,) = (DistortedImages(DIGITS).test() for _ in range(2))
    assert first.inputs[0].shape == (30, PLACED * PLACED)
    assert (first.inputs[0] == second.inputs[0]).all()
    assert (first.target == DIGITS.test_y).all()


def test_it_is_made_of_mnist(data_dir: Path, good: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure = mnist.ensure
    monkeypatch.setattr(mnist, "ensure", lambda: ensure([good]))
    ready = distorted.ensure()
    assert ready == distorted.find_ready()
    assert ready.source == "distorted mnist, 40 x 40"
    batch = distorted.load(10, ready).stream(Share(batch=10, workers=1, index=0, seed=1)).at(0)
    assert batch.inputs[0].shape == (10, 1600)
    assert batch.inputs[0].dtype == np.float32
    assert 0 <= batch.inputs[0].min() < batch.inputs[0].max() <= 1
