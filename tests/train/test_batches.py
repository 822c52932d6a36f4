import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.train.batches import Batches, epoch_order
from paceline.train.flat import flatten, shards, views
from paceline.workloads.registry import WORKLOADS


@given(st.integers(1, 4), st.integers(1, 8), st.integers(32, 200), st.integers(0, 100), st.integers(0, 3))
def test_workers_together_take_what_one_takes_alone(n: int, batch: int, examples: int, seed: int, epoch: int) -> None:
    parts = [epoch_order(examples, batch=batch, workers=n, index=i, seed=seed, epoch=epoch) for i in range(n)]
    alone = epoch_order(examples, batch=batch * n, workers=1, index=0, seed=seed, epoch=epoch)
    assert (np.concatenate(parts, axis=1) == alone).all()
    assert len(np.unique(alone)) == alone.size


def test_epochs_and_seeds_differ_and_repeat() -> None:
    same = {"batch": 5, "workers": 1, "index": 0}
    first = epoch_order(100, **same, seed=1, epoch=0)
    assert (first == epoch_order(100, **same, seed=1, epoch=0)).all()
    assert (first != epoch_order(100, **same, seed=1, epoch=1)).any()
    assert (first != epoch_order(100, **same, seed=2, epoch=0)).any()


def test_batches_are_scaled_images_with_their_labels() -> None:
    x = np.arange(40, dtype=np.uint8).reshape(20, 2)
    y = np.arange(20)
    batches = Batches(x, y, scale=0.5, batch=4, workers=1, index=0, seed=3)
    for step in range(12):
        images, labels = batches.at(step)
        assert images.dtype == np.float32
        assert (images == x[labels] * 0.5).all()


@given(st.integers(1, 500), st.integers(1, 9))
def test_shards_cover_everything_once_and_evenly(size: int, servers: int) -> None:
    parts = shards(size, servers)
    assert len(parts) == servers
    covered = np.concatenate([np.arange(size)[part] for part in parts])
    assert (covered == np.arange(size)).all()
    lengths = [part.stop - part.start for part in parts]
    assert max(lengths) - min(lengths) <= 1


def test_views_are_windows_into_one_vector() -> None:
    model = WORKLOADS["logreg"].model
    first = model.initial(1)
    assert sum(value.size for value in first.values()) == 7_850
    vector = flatten(first)
    windows = views(vector, model.parameters())
    assert all((windows[name] == first[name]).all() for name in first)
    vector[:] = 0
    assert not any(window.any() for window in windows.values())
