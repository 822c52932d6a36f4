"""Distorted digits: what the warp does, and that examples do not depend on the number of workers."""

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
from paceline.data.hashing import make_key
from paceline.data.images import LabelledImages
from paceline.data.warp import INPUT_SIDE, OUTPUT_SIDE, Placement, Warp

rng = np.random.default_rng(0)
DIGITS = LabelledImages(
    train_x=rng.integers(256, size=(120, INPUT_SIDE * INPUT_SIDE), dtype=np.uint8),
    train_y=rng.integers(10, size=120),
    test_x=rng.integers(256, size=(30, INPUT_SIDE * INPUT_SIDE), dtype=np.uint8),
    test_y=rng.integers(10, size=30),
    scale=1 / 255,
)


def warp(pictures: NDArray[np.uint8], placement: Placement) -> NDArray[np.float32]:
    out = np.empty((len(pictures), OUTPUT_SIDE * OUTPUT_SIDE), np.float32)
    Warp(pictures)(np.arange(len(pictures)), placement, out)
    return out.reshape(-1, OUTPUT_SIDE, OUTPUT_SIDE)


def one_placement(turn: float = 0, size: float = 1, right: float = 0, down: float = 0) -> Placement:
    return Placement(*(np.array([value], np.float64) for value in (turn, size, right, down)))


def warp_pixel_by_pixel(picture: NDArray[np.uint8], placement: Placement) -> NDArray[np.float64]:
    """A simple reference implementation of the bilinear warp."""
    turn, size, right, down = (float(value[0]) for value in placement)
    source = np.pad(picture.reshape(INPUT_SIDE, INPUT_SIDE) / 255, 100)
    result = np.zeros((OUTPUT_SIDE, OUTPUT_SIDE))
    for row in range(OUTPUT_SIDE):
        for column in range(OUTPUT_SIDE):
            x, y = column - (OUTPUT_SIDE - 1) / 2 - right, row - (OUTPUT_SIDE - 1) / 2 - down
            from_x = (math.cos(turn) * x + math.sin(turn) * y) / size + (INPUT_SIDE - 1) / 2 + 100
            from_y = (-math.sin(turn) * x + math.cos(turn) * y) / size + (INPUT_SIDE - 1) / 2 + 100
            left, top = math.floor(from_x), math.floor(from_y)
            across, along = from_x - left, from_y - top
            corners = source[top : top + 2, left : left + 2]
            result[row, column] = np.array([1 - along, along]) @ corners @ np.array([1 - across, across])
    return result


def test_an_undistorted_digit_is_in_the_middle() -> None:
    (result,) = warp(DIGITS.train_x[:1], one_placement())
    margin = (OUTPUT_SIDE - INPUT_SIDE) // 2
    assert np.allclose(
        result[margin:-margin, margin:-margin], DIGITS.train_x[0].reshape(INPUT_SIDE, INPUT_SIDE) / 255, atol=1e-6
    )
    assert result.sum() == pytest.approx(result[margin:-margin, margin:-margin].sum())


def test_shifts_move_the_picture_right_and_down() -> None:
    (unshifted,), (shifted,) = (warp(DIGITS.train_x[:1], one_placement(right=x, down=y)) for x, y in ((0, 0), (3, 2)))
    assert (shifted[2:, 3:] == unshifted[:-2, :-3]).all()


@settings(max_examples=15)
@given(st.floats(-3, 3), st.floats(0.5, 2), st.floats(-8, 8), st.floats(-8, 8))
def test_the_result_is_that_of_a_bilinear_warp(turn: float, size: float, right: float, down: float) -> None:
    smooth = np.add.outer(np.arange(INPUT_SIDE), 2 * np.arange(INPUT_SIDE)) * 3
    picture = smooth.astype(np.uint8).reshape(1, -1)
    placement = one_placement(turn, size, right, down)
    (result,) = warp(picture, placement)
    # An error of 1/256 pixel at an edge between black and white is one grey level; the corners are such edges.
    assert np.abs(result - warp_pixel_by_pixel(picture[0], placement)).max() < 0.03


def test_more_pictures_than_are_processed_at_once_give_the_same_result() -> None:
    placed = placements(make_key(1), np.arange(120))
    together = warp(DIGITS.train_x, placed)
    for i in (0, 49, 50, 119):
        single = warp(DIGITS.train_x[i : i + 1], Placement(*(values[i : i + 1] for values in placed)))
        assert (single[0] == together[i]).all()


def test_placements_are_within_their_bounds() -> None:
    placed = placements(make_key(3), np.arange(5_000))
    assert np.abs(placed.turn).max() <= math.pi / 3
    assert placed.size.min() >= 0.7
    assert placed.size.max() <= 1.2
    for shift in (placed.right, placed.down):
        assert (np.abs(shift) + placed.size * INPUT_SIDE / 2 <= OUTPUT_SIDE / 2 + 1e-9).all()


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 20), st.integers(0, 3))
def test_workers_together_take_the_examples_of_a_single_worker(n: int, batch: int, step: int, seed: int) -> None:
    data = DistortedImages(DIGITS)
    parts = [data.stream(Share(batch=batch, workers=n, index=i, seed=seed)).at(step) for i in range(n)]
    single = data.stream(Share(batch=batch * n, workers=1, index=0, seed=seed)).at(step)
    assert (np.concatenate([part.inputs[0] for part in parts]) == single.inputs[0]).all()
    assert (np.concatenate([part.target for part in parts]) == single.target).all()


def test_the_distortion_depends_on_epoch_and_seed() -> None:
    distortions = [placements(make_key(seed, epoch), np.array([5])) for seed, epoch in ((1, 0), (1, 1), (2, 0), (1, 0))]
    assert distortions[0] == distortions[3]
    assert distortions[0] != distortions[1]
    assert distortions[0] != distortions[2]


def test_the_test_set_is_always_the_same() -> None:
    (first,), (second,) = (DistortedImages(DIGITS).test() for _ in range(2))
    assert first.inputs[0].shape == (30, OUTPUT_SIDE * OUTPUT_SIDE)
    assert (first.inputs[0] == second.inputs[0]).all()
    assert (first.target == DIGITS.test_y).all()


def test_the_digits_come_from_mnist(data_dir: Path, complete_source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure = mnist.ensure
    monkeypatch.setattr(mnist, "ensure", lambda: ensure([complete_source]))
    prepared = distorted.ensure()
    assert prepared == distorted.find_prepared()
    assert prepared.source == "distorted mnist, 40 x 40"
    batch = distorted.load(10, prepared).stream(Share(batch=10, workers=1, index=0, seed=1)).at(0)
    assert batch.inputs[0].shape == (10, 1600)
    assert batch.inputs[0].dtype == np.float32
    assert 0 <= batch.inputs[0].min() < batch.inputs[0].max() <= 1
