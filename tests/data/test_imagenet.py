"""Pictures of ImageNet's shape: small in memory, and a label means a look."""

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


def test_the_pool_is_small_and_always_the_same(pool: NDArray[np.uint8]) -> None:
    assert pool.nbytes <= 40_000_000
    assert (draw_pool(5) == draw_pool(5)).all()
    assert len({picture.tobytes() for picture in pool}) == len(pool)


def test_batches_have_the_shape_and_range_of_pictures() -> None:
    (images,), labels = DATA.stream(Share(batch=4, workers=1, index=0, seed=1)).at(3)
    assert images.shape == (4, SIDE * SIDE * CHANNELS)
    assert images.dtype == np.float32
    assert labels.dtype == np.int64
    assert images.min() >= 0
    assert 0.5 < images.max() <= 1
    pieces = DATA.test()
    assert sum(len(piece.target) for piece in pieces) == 40
    assert all(len(piece.target) == len(piece.inputs[0]) for piece in pieces)


def test_workers_together_see_what_one_sees_alone() -> None:
    parts = [DATA.stream(Share(batch=2, workers=3, index=i, seed=7)).at(5) for i in range(3)]
    alone = DATA.stream(Share(batch=6, workers=1, index=0, seed=7)).at(5)
    assert (np.concatenate([part.inputs[0] for part in parts]) == alone.inputs[0]).all()
    assert (np.concatenate([part.target for part in parts]) == alone.target).all()


def test_a_class_is_one_picture_in_one_tint(pool: NDArray[np.uint8]) -> None:
    """So the nearest class, by coarse colours, is mostly the right one; the crops differ."""
    crops = Crops(pool)

    def looks(first: int, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        out = np.empty((count, SIDE * SIDE * CHANNELS), np.float32)
        labels = crops.fill(np.arange(first, first + count), out)
        return out.reshape(count, 7, 32, 7, 32, CHANNELS).mean(axis=(2, 4)).reshape(count, -1), labels

    known = [looks(first, 50) for first in range(0, 1_500, 50)]
    x, y = np.concatenate([look for look, _ in known]), np.concatenate([labels for _, labels in known])
    assert y.min() >= 0
    assert CLASSES * 0.9 < y.max() < CLASSES
    new_x, new_y = looks(imagenet.TRAINING, 50)
    seen = np.isin(new_y, y)
    assert seen.sum() > 20
    distance = ((x[None] - new_x[:, None]) ** 2).sum(axis=2)
    nearest = distance.argmin(axis=1)
    assert (y[nearest] == new_y)[seen].mean() > 0.8
    assert distance[np.arange(50), nearest].min() > 0


def test_it_needs_no_files_and_says_what_it_is() -> None:
    ready = imagenet.ensure()
    assert ready == imagenet.find_ready()
    assert (ready.paths, ready.synthetic, ready.stands_in) == ((), True, False)
    with pytest.raises(DataError, match="choose 1 to 1281167"):
        imagenet.load(0)
