"""What the built-in models are: their sizes as published, their shapes, their first values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.data.batches import Share
from paceline.train.dropout import Masks
from paceline.workloads.layers import Conv, Dense, Dropout, Flatten, MaxPool, Relu
from paceline.workloads.model import Model, initial
from paceline.workloads.parameters import first_values, shards, views
from paceline.workloads.registry import WORKLOADS

MODELS = {one.title: one.model for sizes in WORKLOADS.values() for one in sizes.values() if one.model}


@pytest.mark.parametrize(
    ("title", "parameters"),
    [
        ("logreg", 7_850),
        ("sparse-logreg:sparse", 33_762_578 + 1),
        ("sparse-logreg:dense", 33_762_578 + 1),
        ("lenet", 44_426),
        ("alexnet:imagenet", 61_100_840),  # The one-column form, as in the usual model zoos.
        ("alexnet:cifar", 23_272_266),
        ("autoencoder:small", 784 * 200 + 200 + 200 * 784 + 784),
        ("autoencoder:large", 784 * 200 + 200 + 200 * 200 + 200 + 200 * 784 + 784),
    ],
)
def test_parameters_are_as_many_as_known(title: str, parameters: int) -> None:
    assert MODELS[title].size == parameters


@pytest.mark.parametrize("title", MODELS)
def test_every_model_fits_its_data_and_its_loss(title: str) -> None:
    model = MODELS[title]
    outputs = {"softmax": {10, 1_000}, "logistic": {1}, "reconstruction": {model.inputs[0]}}[model.loss]
    assert model.shapes[-1][0] in outputs
    batch = model.blank(3)
    assert [array.shape[0] for array in batch.inputs] == [3] * len(model.feeds)


@given(st.integers(0, 1_000), st.data())
def test_a_part_of_the_first_values_is_that_part(seed: int, data: st.DataObject) -> None:
    model = Model((7, 7, 2), (Conv(3, 3), Relu(), MaxPool(2, 2), Flatten(), Dense(5)))
    whole = first_values(model.parameters, seed)
    start = data.draw(st.integers(0, model.size - 1))
    stop = data.draw(st.integers(start + 1, model.size))
    assert (first_values(model.parameters, seed, slice(start, stop)) == whole[start:stop]).all()


def test_large_parameters_are_drawn_in_blocks_that_fit_together() -> None:
    shapes = Model((1500,), (Dense(1500),)).parameters
    whole = first_values(shapes, 1)
    middle = slice(2**20 - 5, 2**20 + 5)
    assert (first_values(shapes, 1, middle) == whole[middle]).all()
    assert abs(float(whole[: 1500 * 1500].std()) - (6 / 3000) ** 0.5 / 3**0.5) < 1e-4


@given(st.integers(1, 3), st.integers(1, 5), st.integers(0, 20), st.sampled_from([0.25, 0.5]))
def test_masks_do_not_depend_on_the_number_of_workers(workers: int, batch: int, step: int, rate: float) -> None:
    model = Model((100,), (Dropout(rate), Dense(33), Dropout(rate), Dense(2)))
    parts = [Masks(model, Share(batch=batch, workers=workers, index=i, seed=4)).at(step) for i in range(workers)]
    alone = Masks(model, Share(batch=batch * workers, workers=1, index=0, seed=4)).at(step)
    for layer in (0, 1):
        assert (np.concatenate([part[layer] for part in parts]) == alone[layer]).all()


def test_masks_drop_as_often_as_asked() -> None:
    model = Model((4_000,), (Dropout(0.25), Dense(2)))
    (mask,) = Masks(model, Share(batch=50, workers=1, index=0, seed=1)).at(3)
    assert abs(mask.mean() - 0.75) < 0.01
    (other,) = Masks(model, Share(batch=50, workers=1, index=0, seed=1)).at(4)
    assert (mask != other).any()


def test_layers_that_do_not_fit_are_refused_with_a_hint() -> None:
    with pytest.raises(ValueError, match=r"put Flatten\(\) before"):
        _ = Model((4, 4, 1), (Dense(3),)).size
    with pytest.raises(ValueError, match="does not fit"):
        _ = Model((4, 4, 1), (Conv(3, 5),)).size
    with pytest.raises(ValueError, match="height, width, channels"):
        _ = Model((16,), (Conv(3, 5),)).size


@given(st.integers(1, 500), st.integers(1, 9))
def test_shards_cover_everything_once_and_evenly(size: int, servers: int) -> None:
    parts = shards(size, servers)
    assert len(parts) == servers
    covered = np.concatenate([np.arange(size)[part] for part in parts])
    assert (covered == np.arange(size)).all()
    lengths = [part.stop - part.start for part in parts]
    assert max(lengths) - min(lengths) <= 1


def test_views_are_windows_into_one_vector() -> None:
    model = MODELS["logreg"]
    vector = first_values(model.parameters, 1)
    windows = views(vector, model.parameters)
    assert sum(window.size for window in windows.values()) == 7_850
    assert all((windows[name] == value).all() for name, value in initial(model, 1).items())
    vector[:] = 0
    assert not any(window.any() for window in windows.values())
