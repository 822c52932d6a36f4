"""The built-in models: their published sizes, their shapes, their initial values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.data.batches import Share
from paceline.data.text import VOCABULARY
from paceline.train.dropout import Masks
from paceline.workloads.layers import Conv, Dense, Dropout, Flatten, MaxPool, Relu
from paceline.workloads.model import Model, initial_parameters
from paceline.workloads.parameters import initial_values, shards, views
from paceline.workloads.registry import WORKLOADS

MODELS = {item.title: item.model for sizes in WORKLOADS.values() for item in sizes.values() if item.model}


@pytest.mark.parametrize(
    ("title", "parameters"),
    [
        ("logreg", 7_850),
        ("sparse-logreg:sparse", 33_762_578 + 1),
        ("sparse-logreg:dense", 33_762_578 + 1),
        ("lenet", 44_426),
        ("alexnet:imagenet", 61_100_840),  # The single-GPU form, as in common model libraries.
        ("alexnet:cifar", 23_272_266),
        ("autoencoder:small", 784 * 200 + 200 + 200 * 784 + 784),
        ("autoencoder:large", 784 * 200 + 200 + 200 * 200 + 200 + 200 * 784 + 784),
    ],
)
def test_models_have_the_published_number_of_parameters(title: str, parameters: int) -> None:
    assert MODELS[title].size == parameters


@pytest.mark.parametrize("title", MODELS)
def test_the_output_of_every_model_fits_its_loss(title: str) -> None:
    model = MODELS[title]
    classes = {VOCABULARY} if model.tokens else {10, 1_000}
    outputs = {"softmax": classes, "logistic": {1}, "reconstruction": {model.inputs[0]}}[model.loss]
    assert model.shapes[-1][-1] in outputs
    batch = model.blank(3)
    assert [array.shape[0] for array in batch.inputs] == [3] * len(model.feeds)


@given(st.integers(0, 1_000), st.data())
def test_a_part_of_the_initial_values_equals_that_part_of_all(seed: int, data: st.DataObject) -> None:
    model = Model((7, 7, 2), (Conv(3, 3), Relu(), MaxPool(2, 2), Flatten(), Dense(5)))
    whole = initial_values(model.parameters, seed)
    start = data.draw(st.integers(0, model.size - 1))
    stop = data.draw(st.integers(start + 1, model.size))
    assert (initial_values(model.parameters, seed, slice(start, stop)) == whole[start:stop]).all()


def test_a_part_across_two_blocks_equals_that_part_of_all() -> None:
    shapes = Model((1500,), (Dense(1500),)).parameters
    whole = initial_values(shapes, 1)
    middle = slice(2**20 - 5, 2**20 + 5)
    assert (initial_values(shapes, 1, middle) == whole[middle]).all()
    assert abs(float(whole[: 1500 * 1500].std()) - (6 / 3000) ** 0.5 / 3**0.5) < 1e-4


@given(st.integers(1, 3), st.integers(1, 5), st.integers(0, 20), st.sampled_from([0.25, 0.5]))
def test_dropout_masks_do_not_depend_on_the_number_of_workers(workers: int, batch: int, step: int, rate: float) -> None:
    model = Model((100,), (Dropout(rate), Dense(33), Dropout(rate), Dense(2)))
    parts = [Masks(model, Share(batch=batch, workers=workers, index=i, seed=4)).at(step) for i in range(workers)]
    single = Masks(model, Share(batch=batch * workers, workers=1, index=0, seed=4)).at(step)
    for layer in (0, 1):
        assert (np.concatenate([part[layer] for part in parts]) == single[layer]).all()


def test_dropout_masks_have_the_requested_rate() -> None:
    model = Model((4_000,), (Dropout(0.25), Dense(2)))
    (mask,) = Masks(model, Share(batch=50, workers=1, index=0, seed=1)).at(3)
    assert abs(mask.mean() - 0.75) < 0.01
    (other,) = Masks(model, Share(batch=50, workers=1, index=0, seed=1)).at(4)
    assert (mask != other).any()


def test_layers_that_do_not_fit_are_rejected_with_a_hint() -> None:
    with pytest.raises(ValueError, match=r"put Flatten\(\) before"):
        _ = Model((4, 4, 1), (Dense(3),)).size
    with pytest.raises(ValueError, match="does not fit"):
        _ = Model((4, 4, 1), (Conv(3, 5),)).size
    with pytest.raises(ValueError, match="height, width, channels"):
        _ = Model((16,), (Conv(3, 5),)).size


@given(st.integers(1, 500), st.integers(1, 9))
def test_shards_cover_every_value_once_and_evenly(size: int, servers: int) -> None:
    parts = shards(size, servers)
    assert len(parts) == servers
    covered = np.concatenate([np.arange(size)[part] for part in parts])
    assert (covered == np.arange(size)).all()
    lengths = [part.stop - part.start for part in parts]
    assert max(lengths) - min(lengths) <= 1


def test_views_share_memory_with_the_vector() -> None:
    model = MODELS["logreg"]
    vector = initial_values(model.parameters, 1)
    parameters = views(vector, model.parameters)
    assert sum(value.size for value in parameters.values()) == 7_850
    assert all((parameters[name] == value).all() for name, value in initial_parameters(model, 1).items())
    vector[:] = 0
    assert not any(value.any() for value in parameters.values())
