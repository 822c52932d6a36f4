"""The outer step of DiLoCo, compared with the optimizer of PyTorch that the paper uses."""

import numpy as np
import pytest
import torch

from paceline.train.outer_step import OuterStep


@pytest.mark.parametrize(("lr", "momentum"), [(0.7, 0.9), (0.5, 0.0), (1.0, 0.5)])
def test_rounds_give_what_nesterov_of_torch_gives_with_the_mean_change_as_gradient(lr: float, momentum: float) -> None:
    random = np.random.default_rng(1)
    values = random.normal(size=50).astype(np.float32)
    reference = torch.from_numpy(values.copy()).requires_grad_()
    optimizer = torch.optim.SGD([reference], lr=lr, momentum=momentum, nesterov=bool(momentum))
    outer = OuterStep(values, lr=lr, momentum=momentum)
    for _ in range(5):
        mean = values + random.normal(size=50).astype(np.float32)
        reference.grad = reference.detach() - torch.from_numpy(mean)
        optimizer.step()
        values[:] = mean
        outer.apply()
        np.testing.assert_allclose(values, reference.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_without_momentum_and_with_rate_1_the_mean_is_taken_as_it_is() -> None:
    values = np.arange(4, dtype=np.float32)
    outer = OuterStep(values, lr=1.0, momentum=0.0)
    values[:] = mean = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    outer.apply()
    assert values.tobytes() == mean.tobytes()
    assert outer.velocity is None


def test_a_restored_velocity_continues_as_if_there_had_been_no_interruption() -> None:
    def rounds(outer: OuterStep, values: np.ndarray, count: int) -> None:
        for _ in range(count):
            values += np.float32(0.5)
            outer.apply()

    values = np.zeros(3, np.float32)
    outer = OuterStep(values, lr=0.7, momentum=0.9)
    rounds(outer, values, 2)
    assert outer.velocity is not None
    resumed_values = values.copy()
    resumed = OuterStep(resumed_values, lr=0.7, momentum=0.9, velocity=outer.velocity.copy())
    rounds(outer, values, 2)
    rounds(resumed, resumed_values, 2)
    assert values.tobytes() == resumed_values.tobytes()
