"""Metrics of an evaluation: sequences, labels that do not count, top 5, perplexity, and a user's own code."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.data.batches import Batch
from paceline.errors import RunError
from paceline.train.evaluation import Evaluation, EvaluationSums
from paceline.train.strategy import evaluate
from paceline.workloads.outputs import main_output, map_tensors

RANDOM = np.random.default_rng(4)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(2, 12), st.integers(0, 10))
def test_tokens_of_sequences_count_like_examples_and_those_without_label_not_at_all(
    examples: int, tokens: int, classes: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(examples, tokens, classes)).astype(np.float32)
    labels = random.integers(-1, classes, (examples, tokens))
    sequences, flat = (
        EvaluationSums("softmax", {"top5", "perplexity"}),
        EvaluationSums("softmax", {"top5", "perplexity"}),
    )
    sequences.add(outputs, Batch((), labels))
    counted = labels >= 0
    flat.add(outputs[counted], Batch((), labels[counted]))
    found, expected = sequences.evaluation(), flat.evaluation()
    assert found.qualities == pytest.approx(expected.qualities, nan_ok=True)
    if counted.any():
        assert found.loss is not None
        assert found.metrics["perplexity"] == pytest.approx(math.exp(found.loss))
        assert found.accuracy is not None
        assert found.metrics["top5"] >= found.accuracy


def test_top5_counts_labels_among_the_five_largest_outputs() -> None:
    outputs = np.tile(np.arange(10, dtype=np.float32), (10, 1))
    sums = EvaluationSums("softmax", {"top5"})
    sums.add(outputs, Batch((), np.arange(10)))
    assert sums.evaluation().metrics == {"top5": 0.5}


def test_metrics_are_computed_only_if_they_are_asked_for() -> None:
    sums = EvaluationSums("softmax")
    sums.add(np.zeros((2, 3), np.float32), Batch((), np.array([0, 1])))
    assert sums.evaluation().metrics == {}


class Constant:
    """A model whose outputs are always the same."""

    loss = "softmax"

    def predictor(self):  # type: ignore[no-untyped-def]
        return lambda *inputs: {"hidden": inputs[0], "logits": np.eye(3, dtype=np.float32)[: len(inputs[0])]}


BATCH = Batch((np.zeros((3, 2), np.float32),), np.array([0, 1, 0]))


def test_the_logits_of_a_dict_are_evaluated() -> None:
    found = evaluate(Constant(), Constant(), [BATCH])  # type: ignore[arg-type]
    assert found.accuracy == pytest.approx(2 / 3)


def test_code_of_the_user_evaluates_with_metrics_of_its_own() -> None:
    def own(predict, batches):  # type: ignore[no-untyped-def]
        return {"loss": 0.5, "f1": np.float32(0.25), "seen": sum(len(target) for _, target in batches)}

    found = evaluate(Constant(), Constant(), [BATCH], user_code=own)  # type: ignore[arg-type]
    assert found == Evaluation(0.5, None, None, {"f1": 0.25, "seen": 3.0})
    for wrong in (None, [1.0], {"loss": "low"}, {"loss": [1.0, 2.0]}):
        with pytest.raises(RunError, match="not a dict of numbers"):
            evaluate(Constant(), Constant(), [BATCH], user_code=lambda *_, wrong=wrong: wrong)  # type: ignore[arg-type]


def test_the_main_output_and_every_tensor_of_a_structure_are_found() -> None:
    assert main_output((1, 2)) == 1
    assert main_output({"loss": 0, "logits": 5}) == 5
    assert main_output({"scores": 7}) == 7
    assert map_tensors(lambda value: -value, {"a": (1, 2), "b": None}) == {"a": (-1, -2)}


@pytest.mark.parametrize("shape", [(4, 3), (4, 2, 3)])
def test_losses_of_torch_and_tensorflow_are_the_same_with_labels_that_do_not_count(shape: tuple[int, ...]) -> None:
    torch, tf = pytest.importorskip("torch"), pytest.importorskip("tensorflow")
    from paceline.engines.tensorflow.network import _mean_cross_entropy
    from paceline.engines.torch.layers import mean_loss

    outputs = RANDOM.normal(size=shape).astype(np.float32)
    labels = RANDOM.integers(0, 3, shape[:-1])
    labels[0] = -100
    sums = EvaluationSums("softmax")
    sums.add(outputs, Batch((), labels))
    by_torch = mean_loss("softmax", torch.from_numpy(outputs), [], torch.from_numpy(labels))
    by_tensorflow = _mean_cross_entropy(tf.constant(outputs), tf.constant(labels))
    assert float(by_torch) == pytest.approx(sums.evaluation().loss, rel=1e-5)
    assert float(by_tensorflow) == pytest.approx(sums.evaluation().loss, rel=1e-5)
