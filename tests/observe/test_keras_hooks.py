"""The batches of `fit` of Keras: how many examples each has, and its own loss instead of the mean of the epoch."""

import math

import numpy as np
import pytest

from paceline.observe.keras_hooks import Batches, LossOfBatches, batches_of_fit


def test_the_last_batch_of_an_epoch_may_be_smaller() -> None:
    assert [Batches(8, 20).size(batch) for batch in range(3)] == [8, 8, 4]
    assert Batches(8, math.inf).size(1_000) == 8
    assert Batches(0, math.inf).size(3) == 0


def test_the_loss_of_a_batch_is_computed_from_means_over_the_epoch() -> None:
    batches, losses = Batches(8, 20), [2.0, 1.0, 4.0]
    means = [2.0, 1.5, (2.0 * 8 + 1.0 * 8 + 4.0 * 4) / 20]
    loss = LossOfBatches(batches)
    assert [loss.of(batch, mean) for batch, mean in enumerate(means)] == pytest.approx(losses)


@pytest.mark.parametrize(
    ("arguments", "options", "expected"),
    [
        ((np.zeros((100, 4)),), {}, (32, 100)),
        ((np.zeros((100, 4)), np.zeros(100), 8), {"validation_split": 0.25}, (8, 75)),
        ((np.zeros((100, 4)),), {"validation_split": 0.25, "validation_data": ((), ())}, (32, 100)),
        ((), {"x": {"words": np.zeros((50, 4))}, "batch_size": 16}, (16, 50)),
        ((), {"x": [np.zeros((50, 4)), np.zeros((50, 2))], "batch_size": 16, "steps_per_epoch": 9}, (16, math.inf)),
        ((iter(()),), {}, (0, math.inf)),
        ((), {}, (0, math.inf)),
    ],
)
def test_the_size_of_batches_follows_from_the_arguments_of_fit(
    arguments: tuple[object, ...], options: dict[str, object], expected: tuple[int, float]
) -> None:
    assert tuple(batches_of_fit(arguments, options)) == expected
