"""Synthetic pictures of ImageNet's shape: little memory, and labels that can be learned."""

import numpy as np
import pytest
from numpy.typing import NDArray

from paceline.data import imagenet
from paceline.data.batches import Share
from paceline.data.imagenet import CHANNELS, CLASSES, SIDE, Crops, SyntheticImagenet, draw_pool
from paceline.errors import DataError

DATA = SyntheticImagenet(10_000, test=40)


@pytest.fixture(scope="module")
def pool() -> NDArray[np.uint8]:
    return draw_pool()


def test_the_pool_is_small_and_reproducible(pool: NDArray[np.uint8]) -> None:
    assert pool.nbytes <= 40_000_000
    assert (draw_pool(5) == draw_pool(5)).all()
    assert len({picture.tobytes() for picture in pool}) == len(pool)


def test_batches_have_the_right_shape_and_range() -> None:
    (images,), labels = DATA.stream(Share(batch=4, workers=1, index=0, seed=1)).at(3)
    assert images.shape == (4, SIDE * SIDE * CHANNELS)
    assert images.dtype == np.float32
    assert labels.dtype == np.int64
    assert images.min() >= 0
    assert 0.5 < images.max() <= 1
    batches = DATA.test()
    assert sum(len(batch.target) for batch in batches) == 40
    assert all(len(batch.target) == len(batch.inputs[0]) for batch in batches)


def test_workers_together_take_the_examples_of_a_single_worker() -> None:
    parts = [DATA.stream(Share(batch=2, workers=3, index=i, seed=7)).at(5) for i in range(3)]
    single = DATA.stream(Share(batch=6, workers=1, index=0, seed=7)).at(5)
    assert (np.concatenate([part.inputs[0] for part in parts]) == single.inputs[0]).all()
    assert (np.concatenate([part.target for part in parts]) == single.target).all()


def test_a_class_is_one_picture_in_one_tint_and_can_be_recognised(pool: NDArray[np.uint8]) -> None:
    """The nearest known example, by coarse colours, mostly has the right class although the crops differ."""
    crops = Crops(pool)

    def coarse_colours(first: int, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        out = np.empty((count, SIDE * SIDE * CHANNELS), np.float32)
        labels = crops.fill(np.arange(first, first + count), out)
        return out.reshape(count, 7, 32, 7, 32, CHANNELS).mean(axis=(2, 4)).reshape(count, -1), labels

    known = [coarse_colours(first, 50) for first in range(0, 1_500, 50)]
    x, y = np.concatenate([colours for colours, _ in known]), np.concatenate([labels for _, labels in known])
    assert y.min() >= 0
    assert CLASSES * 0.9 < y.max() < CLASSES
    new_x, new_y = coarse_colours(imagenet.TRAINING, 50)
    is_known = np.isin(new_y, y)
    assert is_known.sum() > 20
    distance = ((x[None] - new_x[:, None]) ** 2).sum(axis=2)
    nearest = distance.argmin(axis=1)
    assert (y[nearest] == new_y)[is_known].mean() > 0.8
    assert distance[np.arange(50), nearest].min() > 0


def test_no_files_are_needed_and_the_data_is_marked_synthetic() -> None:
    prepared = imagenet.ensure()
    assert prepared == imagenet.find_prepared()
    assert (prepared.paths, prepared.synthetic, prepared.is_substitute) == ((), True, False)
    with pytest.raises(DataError, match="choose 1 to 1281167"):
        imagenet.load(0)
