"""The substitute for MNIST: reproducible, balanced, and learnable but not trivial."""

import numpy as np
from numpy.typing import NDArray

from paceline.data import synthetic_digits


def test_the_same_seed_gives_the_same_digits() -> None:
    images, labels = synthetic_digits.draw(300, seed=7)
    again, same_labels = synthetic_digits.draw(300, seed=7)
    other, _ = synthetic_digits.draw(300, seed=8)
    assert images.shape == (300, 28, 28)
    assert images.dtype == labels.dtype == np.uint8
    assert np.array_equal(images, again)
    assert np.array_equal(labels, same_labels)
    assert not np.array_equal(images, other)


def test_classes_are_balanced_and_shuffled() -> None:
    _, labels = synthetic_digits.draw(1003, seed=1)
    counts = np.bincount(labels, minlength=10)
    assert len(counts) == 10
    assert counts.max() - counts.min() <= 1
    assert len(set(labels[:40].tolist())) > 5


def test_softmax_regression_learns_the_digits_but_not_perfectly() -> None:
    train_x, train_y = synthetic_digits.draw(12_000, seed=1)
    test_x, test_y = synthetic_digits.draw(2_000, seed=2)
    accuracy = softmax_regression(_rows(train_x), train_y, _rows(test_x), test_y, epochs=5)
    assert 0.80 < accuracy < 0.98


def softmax_regression(
    train_x: NDArray[np.float32],
    train_y: NDArray[np.uint8],
    test_x: NDArray[np.float32],
    test_y: NDArray[np.uint8],
    epochs: int,
) -> float:
    weights = np.zeros((train_x.shape[1], 10), np.float32)
    targets = np.eye(10, dtype=np.float32)[train_y]
    for _ in range(epochs):
        for start in range(0, len(train_x), 100):
            x, y = train_x[start : start + 100], targets[start : start + 100]
            scores = x @ weights
            exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights -= 0.3 * x.T @ (exponentials / exponentials.sum(axis=1, keepdims=True) - y) / len(x)
    return float(((test_x @ weights).argmax(axis=1) == test_y).mean())


def _rows(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Pixels from 0 to 1, and a column of ones, so that the bias is one of the weights."""
    rows = np.ones((len(images), 28 * 28 + 1), np.float32)
    rows[:, 1:] = images.reshape(len(images), -1) / 255
    return rows
