"""Synthetic clicks: the right shape, skewed, learnable, and the same for any number of workers."""

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


def batch_at(step: int = 0, *, batch: int = 100, seed: int = 1, data: SparseExamples = SMALL) -> Batch:
    return data.stream(Share(batch=batch, workers=1, index=0, seed=seed)).at(step)


def test_fields_and_batches_have_the_right_shape() -> None:
    assert len(FIELDS) == NONZEROS
    assert sum(FIELDS) == FEATURES
    assert min(FIELDS) > 1
    (indices, values), labels = batch_at(data=sparse.load())
    assert indices.shape == values.shape == (100, NONZEROS)
    assert [array.dtype.name for array in (indices, values, labels)] == ["int64", "float32", "int64"]
    first = np.cumsum(FIELDS) - FIELDS
    assert (indices >= first).all()
    assert (indices < first + FIELDS).all()
    assert (values == 1).all()
    assert set(labels.tolist()) == {0, 1}


def test_fewer_training_examples_keep_the_test_set_and_too_many_are_rejected() -> None:
    full, reduced = SparseExamples().test(), sparse.load(10).test()
    assert sum(len(batch.target) for batch in reduced) == 20_000
    assert all((a.inputs[0] == b.inputs[0]).all() for a, b in zip(full, reduced, strict=True))
    with pytest.raises(DataError, match="choose 1 to 45840617"):
        sparse.load(45_840_618)


@given(st.integers(1, 5), st.integers(1, 30), st.integers(0, 500), st.integers(0, 9))
def test_workers_together_take_the_examples_of_a_single_worker(n: int, batch: int, step: int, seed: int) -> None:
    streams = [SMALL.stream(Share(batch=batch, workers=n, index=i, seed=seed)) for i in range(n)]
    parts = [stream.at(step) for stream in streams]
    single = batch_at(step, batch=n * batch, seed=seed)
    assert (np.concatenate([part.inputs[0] for part in parts]) == single.inputs[0]).all()
    assert (np.concatenate([part.target for part in parts]) == single.target).all()


def test_every_epoch_has_every_example_once() -> None:
    stream = SMALL.stream(Share(batch=100, workers=1, index=0, seed=4))
    epochs = [np.concatenate([stream.at(step).inputs[0].copy() for step in range(e * 10, e * 10 + 10)]) for e in (0, 1)]
    assert (epochs[0] == epochs[1]).all()
    other = np.concatenate([batch_at(step, seed=5).inputs[0] for step in range(10)])
    assert (epochs[0] != other).any()
    assert sorted(map(tuple, epochs[0])) == sorted(map(tuple, other))


def test_another_seed_of_the_data_set_gives_other_examples() -> None:
    other = SparseExamples(fields=(3, 1, 50, 1_000), examples=1_000, seed=2)
    assert (batch_at().inputs[0] != batch_at(data=other).inputs[0]).any()


def test_test_examples_are_not_in_the_training_set() -> None:
    wide = SparseExamples(fields=(100_000,) * 5, examples=2_000, test=2_000)
    training = set(map(tuple, batch_at(batch=2_000, data=wide).inputs[0].tolist()))
    testing = {tuple(row) for batch in wide.test() for row in batch.inputs[0].tolist()}
    assert len(training & testing) < 20  # Some examples are equal by chance.


def test_few_features_of_a_field_are_frequent_but_all_occur() -> None:
    indices = batch_at(batch=1_000).inputs[0]
    counts = np.sort(np.bincount(indices[:, 2] - ENDS[1], minlength=50))[::-1]
    assert len(counts) == 50
    assert counts[0] > 100
    assert counts[:5].sum() > counts[5:].sum() / 2
    many = np.bincount(np.concatenate([batch.inputs[0][:, 2] - ENDS[1] for batch in SMALL.test()]), minlength=50)
    assert many.min() > 0
    assert len(set(indices[:, 1].tolist())) == 1


def test_a_quarter_of_the_examples_are_clicks_and_can_be_learned() -> None:
    data = SparseExamples(fields=(30,) * 10 + (5_000,) * 10, examples=100_000, test=5_000)
    batches = data.test()
    x, y = np.concatenate([batch.inputs[0] for batch in batches]), np.concatenate([batch.target for batch in batches])
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
    constant_loss = -(y.mean() * np.log(y.mean()) + (1 - y.mean()) * np.log(1 - y.mean()))
    assert loss < 0.92 * constant_loss


def test_no_files_are_needed() -> None:
    prepared = sparse.ensure()
    assert prepared == sparse.find_prepared()
    assert prepared.paths == ()
    assert prepared.synthetic
    assert not prepared.is_substitute
