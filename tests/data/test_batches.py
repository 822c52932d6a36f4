"""Which examples workers take, and what a batch of images contains."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.data.batches import ExampleOrder, Share, epoch_order
from paceline.data.images import LabelledImages


@given(st.integers(1, 4), st.integers(1, 8), st.integers(32, 200), st.integers(0, 100), st.integers(0, 30))
def test_workers_together_take_the_examples_of_a_single_worker(
    n: int, batch: int, examples: int, seed: int, step: int
) -> None:
    orders = [ExampleOrder(examples, Share(batch=batch, workers=n, index=i, seed=seed)) for i in range(n)]
    single = ExampleOrder(examples, Share(batch=batch * n, workers=1, index=0, seed=seed))
    assert (np.concatenate([order.at(step) for order in orders]) == single.at(step)).all()
    assert {order.epoch(step) for order in orders} == {single.epoch(step)}
    epoch = epoch_order(examples, Share(batch=batch * n, workers=1, index=0, seed=seed), single.epoch(step))
    assert len(np.unique(epoch)) == epoch.size


def test_the_order_differs_by_epoch_and_seed_and_is_reproducible() -> None:
    share = Share(batch=5, workers=1, index=0, seed=1)
    first = epoch_order(100, share, epoch=0)
    assert (first == epoch_order(100, share, epoch=0)).all()
    assert (first != epoch_order(100, share, epoch=1)).any()
    assert (first != epoch_order(100, Share(batch=5, workers=1, index=0, seed=2), epoch=0)).any()


def test_a_batch_contains_scaled_images_with_their_labels() -> None:
    x = np.arange(40, dtype=np.uint8).reshape(20, 2)
    y = np.arange(20)
    data = LabelledImages(train_x=x, train_y=y, test_x=x[:3], test_y=y[:3], scale=0.5)
    stream = data.stream(Share(batch=4, workers=1, index=0, seed=3))
    for step in range(12):
        (images,), labels = stream.at(step)
        assert images.dtype == np.float32
        assert (images == x[labels] * 0.5).all()
    (test,) = data.test()
    assert (test.inputs[0] == x[:3] * 0.5).all()
    assert (test.target == y[:3]).all()
