"""Clicks that are made up: the right shape, skewed, learnable, and the same for everyone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.data import sparse
from paceline.data.batches import Batch, Share
from paceline.data.sparse import FEATURES, FIELDS, NONZEROS, SparseExamples
from paceline.errors import DataError

SMALL = SparseExamples(fields=(3, 1, 50, 1_000), examples=1_000, test=4_000)
ENDS = np.cumsum((3, 1, 50, 1_000))


def one(step: int = 0, *, batch: int = 100, seed: int = 1, data: SparseExamples = SMALL) -> Batch:
    return data.stream(Share(batch=batch, workers=1, index=0, seed=seed)).at(step)


def test_the_fields_are_as_many_and_as_large_as_they_should_be() -> None:
    assert len(FIELDS) == NONZEROS
    assert sum(FIELDS) == FEATURES
    assert min(FIELDS) > 1
    (indices, values), labels = one(data=sparse.load())
    assert indices.shape == values.shape == (100, NONZEROS)
    assert [array.dtype.name for array in (indices, values, labels)] == ["int64", "float32", "int64"]
    first = np.cumsum(FIELDS) - FIELDS
    assert (indices >= first).all()
    assert (indices < first + FIELDS).all()
    assert (values == 1).all()
    assert set(labels.tolist()) == {0, 1}


def test_a_cut_keeps_the_test_set_and_a_senseless_one_is_refused() -> None:
    whole, few = SparseExamples().test(), sparse.load(10).test()
    assert sum(len(piece.target) for piece in few) == 20_000
    assert all((a.inputs[0] == b.inputs[0]).all() for a, b in zip(whole, few, strict=True))
    with pytest.raises(DataError, match="choose 1 to 45840617"):
        sparse.load(45_840_618)


@given(st.integers(1, 5), st.integers(1, 30), st.integers(0, 500), st.integers(0, 9))
def test_workers_together_see_what_one_sees_alone(n: int, batch: int, step: int, seed: int) -> None:
    streams = [SMALL.stream(Share(batch=batch, workers=n, index=i, seed=seed)) for i in range(n)]
    parts = [stream.at(step) for stream in streams]
    alone = one(step, batch=n * batch, seed=seed)
    assert (np.concatenate([part.inputs[0] for part in parts]) == alone.inputs[0]).all()
    assert (np.concatenate([part.target for part in parts]) == alone.target).all()


def test_an_epoch_is_every_example_once_and_then_again() -> None:
    stream = SMALL.stream(Share(batch=100, workers=1, index=0, seed=4))
    epochs = [np.concatenate([stream.at(step).inputs[0].copy() for step in range(e * 10, e * 10 + 10)]) for e in (0, 1)]
    assert (epochs[0] == epochs[1]).all()
    other = np.concatenate([one(step, seed=5).inputs[0] for step in range(10)])
    assert (epochs[0] != other).any()
    assert sorted(map(tuple, epochs[0])) == sorted(map(tuple, other))


def test_the_data_sets_own_seed_makes_other_examples() -> None:
    other = SparseExamples(fields=(3, 1, 50, 1_000), examples=1_000, seed=2)
    assert (one().inputs[0] != one(data=other).inputs[0]).any()


def test_test_examples_are_none_of_the_training_set() -> None:
    wide = SparseExamples(fields=(100_000,) * 5, examples=2_000, test=2_000)
    training = set(map(tuple, one(batch=2_000, data=wide).inputs[0].tolist()))
    testing = {tuple(row) for piece in wide.test() for row in piece.inputs[0].tolist()}
    assert len(training & testing) < 20  # now and then two examples are the same by chance


def test_few_features_of_a_field_are_frequent_and_all_occur() -> None:
    indices = one(batch=1_000).inputs[0]
    counts = np.sort(np.bincount(indices[:, 2] - ENDS[1], minlength=50))[::-1]
    assert len(counts) == 50
    assert counts[0] > 100
    assert counts[:5].sum() > counts[5:].sum() / 2
    many = np.bincount(np.concatenate([piece.inputs[0][:, 2] - ENDS[1] for piece in SMALL.test()]), minlength=50)
    assert many.min() > 0
    assert len(set(indices[:, 1].tolist())) == 1


def test_a_quarter_are_clicks_and_a_model_can_learn_which() -> None:
    data = SparseExamples(fields=(30,) * 10 + (5_000,) * 10, examples=100_000, test=5_000)
    pieces = data.test()
    x, y = np.concatenate([p.inputs[0] for p in pieces]), np.concatenate([p.target for p in pieces])
    assert 0.22 < y.mean() < 0.28
    weights = np.zeros(10 * 30 + 10 * 5_000)
    bias = 0.0
    stream = data.stream(Share(batch=100, workers=1, index=0, seed=1))
    for step in range(600):
        (indices, _), labels = stream.at(step)
        error = 1 / (1 + np.exp(-weights[indices].sum(axis=1) - bias)) - labels
        np.add.at(weights, indices, -0.01 * error[:, None])
        bias -= 0.01 * error.sum()
    scores = weights[x].sum(axis=1) + bias
    loss = (np.logaddexp(0, scores) - scores * y).mean()
    knowing_nothing = -(y.mean() * np.log(y.mean()) + (1 - y.mean()) * np.log(1 - y.mean()))
    assert loss < 0.92 * knowing_nothing


def test_it_needs_no_files() -> None:
    ready = sparse.ensure()
    assert ready == sparse.find_ready()
    assert ready.paths == ()
    assert ready.synthetic
    assert not ready.stands_in
