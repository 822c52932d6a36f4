"""Logistic regression on MNIST reaches its known loss and accuracy."""

from collections.abc import Callable

import pytest

from paceline.store.result import Result


@pytest.fixture(autouse=True)
def _needs_mnist() -> None:
    from paceline.data.registry import ensure

    if ensure("mnist").synthetic:
        pytest.skip("MNIST is not available; the expected values are for MNIST")


def test_loss_of_035_has_an_accuracy_of_about_90_7_percent(run_one: Callable[..., Result]) -> None:
    result = run_one(stop="loss=0.35", eval_every=10, lr=0.01)
    assert result.reached
    assert result.reached.at_update == pytest.approx(7_100, rel=0.05)
    assert result.final.accuracy == pytest.approx(0.907, abs=0.004)


def test_20_epochs_reach_an_accuracy_of_92_percent(run_one: Callable[..., Result]) -> None:
    result = run_one(stop="epochs=20", batch=200)
    assert result.final.accuracy
    assert result.final.accuracy > 0.92
