"""The substitute for CIFAR-10: reproducible, balanced, and learnable but not trivial."""

import numpy as np
from numpy.typing import NDArray

from data.test_synthetic_digits import softmax_regression
from paceline.data import synthetic_pictures


def test_the_same_seed_gives_the_same_pictures() -> None:
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


def test_edges_are_more_informative_than_colours() -> None:
    train, test = synthetic_pictures.draw(4_000, seed=1), synthetic_pictures.draw(1_000, seed=2)
    colours, edges = (
        softmax_regression(features(train[0]), train[1], features(test[0]), test[1], epochs=20)
        for features in (_mean, _edges)
    )
    assert 0.15 < colours < 0.6
    assert colours + 0.1 < edges < 0.98


def _mean(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    return _with_bias(images.mean(axis=(1, 2)) / 255)


def _edges(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """How much pixels differ on average from those at several offsets: one number for each offset."""
    grey = images.mean(axis=3) / 255
    offsets = [(0, 1), (1, 0), (1, 1), (1, -1), (0, 3), (3, 0), (3, 3), (3, -3), (0, 6), (6, 0), (6, 6), (6, -6)]
    differences = [np.abs(grey - np.roll(grey, offset, axis=(1, 2))).mean(axis=(1, 2)) for offset in offsets]
    strengths = np.stack(differences, axis=1)
    return _with_bias(3 * strengths / strengths.mean(axis=1, keepdims=True))


def _with_bias(features: NDArray[np.floating]) -> NDArray[np.float32]:
    return np.concatenate([features, np.ones((len(features), 1))], axis=1).astype(np.float32)
