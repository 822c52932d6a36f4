"""The pictures that stand in for CIFAR-10: the same every time, even, and learnable but not trivial."""

import numpy as np
from numpy.typing import NDArray

from data.test_synthetic_digits import softmax_regression
from paceline.data import synthetic_pictures


def test_a_seed_means_the_same_pictures() -> None:
    images, labels = synthetic_pictures.draw(300, seed=7)
    again, same_labels = synthetic_pictures.draw(300, seed=7)
    other, _ = synthetic_pictures.draw(300, seed=8)
    assert images.shape == (300, 32, 32, 3)
    assert images.dtype == labels.dtype == np.uint8
    assert np.array_equal(images, again)
    assert np.array_equal(labels, same_labels)
    assert not np.array_equal(images, other)


def test_classes_are_balanced_and_shuffled() -> None:
    _, labels = synthetic_pictures.draw(1003, seed=1)
    counts = np.bincount(labels, minlength=10)
    assert len(counts) == 10
    assert counts.max() - counts.min() <= 1
    assert len(set(labels[:40].tolist())) > 5


def test_colours_say_little_and_edges_say_more() -> None:
    train, test = synthetic_pictures.draw(4_000, seed=1), synthetic_pictures.draw(1_000, seed=2)
    colours, edges = (
        softmax_regression(seen(train[0]), train[1], seen(test[0]), test[1], epochs=20) for seen in (_mean, _edges)
    )
    assert 0.15 < colours < 0.6
    assert colours + 0.1 < edges < 0.98


def _mean(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    return _with_bias(images.mean(axis=(1, 2)) / 255)


def _edges(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """How strongly each pixel differs from those a few to the right, below, and across: one number for each way."""
    grey = images.mean(axis=3) / 255
    ways = [(0, 1), (1, 0), (1, 1), (1, -1), (0, 3), (3, 0), (3, 3), (3, -3), (0, 6), (6, 0), (6, 6), (6, -6)]
    steps = [np.abs(grey - np.roll(grey, way, axis=(1, 2))).mean(axis=(1, 2)) for way in ways]
    strengths = np.stack(steps, axis=1)
    return _with_bias(3 * strengths / strengths.mean(axis=1, keepdims=True))


def _with_bias(features: NDArray[np.floating]) -> NDArray[np.float32]:
    return np.concatenate([features, np.ones((len(features), 1))], axis=1).astype(np.float32)
