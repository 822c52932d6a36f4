"""Which examples workers take, and what a batch of images contains."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.data.augment import MAX_SHIFT
from paceline.data.batches import ExampleOrder, Share, pass_order
from paceline.data.images import LabelledImages


@given(st.integers(1, 4), st.integers(1, 8), st.integers(32, 200), st.integers(0, 100), st.integers(0, 30))
def test_workers_together_take_the_examples_of_a_single_worker(
    n: int, batch: int, examples: int, seed: int, step: int
) -> None:
    orders = [ExampleOrder(examples, Share(batch=batch, workers=n, index=i, seed=seed)) for i in range(n)]
    single = ExampleOrder(examples, Share(batch=batch * n, workers=1, index=0, seed=seed))
    assert (np.concatenate([order.at(step) for order in orders]) == single.at(step)).all()
    assert {order.pass_number(step) for order in orders} == {single.pass_number(step)}
    epoch = pass_order(examples, Share(batch=batch * n, workers=1, index=0, seed=seed), single.pass_number(step))
    assert len(np.unique(epoch)) == epoch.size


def test_the_order_differs_by_epoch_and_seed_and_is_reproducible() -> None:
    share = Share(batch=5, workers=1, index=0, seed=1)
    first = pass_order(100, share, number=0)
    assert (first == pass_order(100, share, number=0)).all()
    assert (first != pass_order(100, share, number=1)).any()
    assert (first != pass_order(100, Share(batch=5, workers=1, index=0, seed=2), number=0)).any()


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


def share(index: int = 0, **fields: object) -> Share:
    return Share(**{"batch": 5, "workers": 3, "index": index, "seed": 1, **fields})  # type: ignore[arg-type]


def test_a_worker_with_its_own_shard_sees_only_that_in_every_pass() -> None:
    orders = [ExampleOrder(90, share(index, shard="worker")) for index in range(3)]
    seen = [set(np.concatenate([order.at(step) for step in range(12)]).tolist()) for order in orders]
    assert seen == [set(range(index, 90, 3)) for index in range(3)]
    assert (orders[0].at(0) != orders[0].at(6)).any(), "each pass has another order"


def test_without_shuffling_examples_come_in_order() -> None:
    order = ExampleOrder(30, share(workers=1, shuffle_buffer=0))
    assert np.concatenate([order.at(step) for step in range(6)]).tolist() == list(range(30))
    assert (order.at(6) == order.at(0)).all()


@given(st.integers(1, 40), st.integers(0, 5))
def test_a_shuffle_buffer_takes_each_example_once_and_never_before_it_is_in_the_buffer(size: int, number: int) -> None:
    order = pass_order(40, share(workers=1, batch=1, shuffle_buffer=size), number).ravel()
    assert sorted(order.tolist()) == list(range(40))
    assert all(example < position + size for position, example in enumerate(order.tolist()))


def test_an_epoch_of_few_steps_begins_a_new_pass_and_one_of_many_steps_has_several() -> None:
    few = ExampleOrder(60, share(steps_per_epoch=2))
    assert [few.pass_number(step) for step in range(6)] == [0, 0, 1, 1, 2, 2]
    many = ExampleOrder(60, share(steps_per_epoch=6))
    assert [many.pass_number(step) for step in range(14)] == [0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4]
    in_order = ExampleOrder(60, share(workers=1, steps_per_epoch=3, shuffle_buffer=0))
    assert {int(example) for step in range(30) for example in in_order.at(step)} == set(range(15))


def test_examples_beyond_the_stored_ones_are_shifted_copies() -> None:
    x = np.zeros((3, 10 * 10), np.uint8)
    x[:, 5 * 10 + 5] = [10, 20, 30]
    data = LabelledImages(train_x=x, train_y=np.arange(3), test_x=x, test_y=np.arange(3), scale=1.0, copies=597)
    stream = data.stream(share(workers=1, batch=600, shuffle_buffer=0))
    (images,), labels = stream.at(0)
    assert labels.tolist() == [number % 3 for number in range(600)]
    assert (images[:3] == x).all(), "stored examples are not shifted"
    assert (images.sum(1) == x.sum(1)[labels]).all()
    positions = {divmod(int(image.argmax()), 10) for image in images}
    span = range(5 - MAX_SHIFT, 5 + MAX_SHIFT + 1)
    assert positions == {(row, column) for row in span for column in span}
    assert (stream.at(0).inputs[0] == images).all(), "the same in every pass"
