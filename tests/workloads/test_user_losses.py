"""Losses, steps, evaluations and batches of users' own workloads, on real runs."""

from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.errors import SpecError, UsageError
from paceline.store.result import Result
from paceline.workloads.user_workload import load_user_workload

TAGGER = """
import numpy as np
from paceline import Metric, Workload

CLASSES, TOKENS = 8, 6

def batches(seed, count, sizes):
    random = np.random.default_rng(seed)
    for number in range(count):
        tokens = random.integers(0, CLASSES, (sizes[number % len(sizes)], TOKENS))
        labels = (tokens + 1) % CLASSES
        labels[:, 0] = -100  # The first token does not count.
        yield {"tokens": tokens, "weights": np.ones(tokens.shape, np.float32), "labels": labels}

def torch_model():
    import torch

    class Tagger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(CLASSES, 16)
            self.top = torch.nn.Linear(16, CLASSES)

        def forward(self, weights, tokens):
            hidden = self.table(tokens) * weights[..., None]
            return {"hidden": hidden, "logits": self.top(hidden)}

    return Tagger()

def keras_model():
    import keras

    tokens, weights = keras.Input((TOKENS,), dtype="int64", name="tokens"), keras.Input((TOKENS,), name="weights")
    hidden = keras.layers.Embedding(CLASSES, 16)(tokens) * keras.ops.expand_dims(weights, -1)
    logits = keras.layers.Dense(CLASSES)(hidden)
    return keras.Model({"tokens": tokens, "weights": weights}, {"hidden": hidden, "logits": logits})

EXTRA
WORKLOAD = Workload(
    name="tagger", torch=torch_model, tensorflow=keras_model, train_examples=640, optimizer="adam", lr=0.05,
    train=lambda share: batches([share.seed, share.index], 40, SIZES),
    **{"test": lambda: batches(0, 2, [50])} | dict(FIELDS)
)
"""


def write(tmp_path: Path, *, extra: str = "", fields: str = "", sizes: str = "[16]") -> Path:
    file = tmp_path / "tagger.py"
    file.write_text(TAGGER.replace("EXTRA", extra).replace("FIELDS", fields).replace("SIZES", sizes))
    return file


def train(tmp_path: Path, file: Path, **fields: Any) -> Result:
    (result,) = paceline.run(str(file), batch=16, runs=str(tmp_path / "runs"), check=False, **fields)
    return result


def test_named_inputs_sequences_and_batches_of_any_size_train_until_a_perplexity(tmp_path: Path) -> None:
    file = write(tmp_path, sizes="[16, 5]", fields='metrics=("top5",)')
    result = train(tmp_path, file, engine="torch", stop=["perplexity=1.5", "steps=400"], eval_every=20)
    assert result.status == "ok", result.reason
    assert result.reached
    assert result.reached.rule == "perplexity=1.5"
    assert result.final.metrics.keys() == {"top5", "perplexity"}
    assert result.final.metrics["perplexity"] <= 1.5
    assert result.examples == result.updates // 2 * 21 + result.updates % 2 * 16


OWN = """
def loss(outputs, target):
    import torch
    return torch.nn.functional.cross_entropy(outputs["logits"].flatten(0, 1), target.flatten()) RESULT

def step(model, tokens, weights, target):
    return loss(model(tokens, weights), target)

def evaluate(predict, batches):
    right = [np.mean(predict(*inputs)["logits"].argmax(-1)[:, 1:] == target[:, 1:]) for *inputs, target in batches]
    return {"accuracy": np.mean(right), "batches": len(batches)}
"""


@pytest.mark.parametrize(
    "fields", [pytest.param("loss=loss", marks=pytest.mark.slow), "train_step=step, evaluate=evaluate"]
)
def test_functions_of_the_user_replace_loss_step_and_evaluation(tmp_path: Path, fields: str) -> None:
    file = write(tmp_path, extra=OWN.replace("RESULT", ""), fields=fields)
    result = train(tmp_path, file, engine="torch", strategy="allreduce", layout="w w", stop="steps=120")
    assert result.status == "ok", result.reason
    if "evaluate" in fields:
        assert result.final.loss is None
        assert result.final.accuracy is not None
        assert result.final.accuracy > 0.9
        assert result.final.metrics == {"batches": 2.0}
    else:
        assert result.final.loss is not None
        assert result.final.loss < 0.5


SCORES = """
def evaluate(predict, batches):
    right = [np.mean(predict(*inputs)["logits"].argmax(-1)[:, 1:] == target[:, 1:]) for *inputs, target in batches]
    return {"right": np.mean(right), "wrong": 1 - np.mean(right)}
"""


@pytest.mark.parametrize("rule", ["right=0.9", pytest.param("wrong=0.1", marks=pytest.mark.slow)])
def test_a_declared_metric_of_the_user_ends_a_run(tmp_path: Path, rule: str) -> None:
    declared = 'evaluate=evaluate, metrics=(Metric("right", "higher"), Metric("wrong", "lower"))'
    file = write(tmp_path, extra=SCORES, fields=declared)
    result = train(tmp_path, file, engine="torch", stop=[rule, "steps=400"], eval_every=10)
    assert result.status == "ok", result.reason
    assert result.reached
    assert result.reached.rule == rule
    assert 10 <= result.updates < 400
    assert result.final.metrics["right"] >= 0.9
    assert result.to_target_s is not None
    with pytest.raises(UsageError, match=r"unknown stop rule 'rihgt': did you mean right\?.* loss, .*right, .*wrong"):
        train(tmp_path, file, engine="torch", stop="rihgt=0.9")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "layout"), [("single", "w"), ("ps-sync", "pw w"), ("ps-async", "pw w"), ("allreduce", "w w")]
)
@pytest.mark.parametrize("engine", ["torch", "tensorflow"])
def test_sequences_train_with_every_strategy(tmp_path: Path, engine: str, strategy: str, layout: str) -> None:
    result = train(
        tmp_path, write(tmp_path), engine=engine, strategy=strategy, layout=layout, stop="steps=150", eval_every=50
    )
    assert result.status == "ok", result.reason
    assert result.final.accuracy is not None
    assert result.final.accuracy > 0.9


@pytest.mark.slow
def test_no_evaluation_at_all(tmp_path: Path) -> None:
    file = write(tmp_path, extra="def evaluate(predict, batches):\n    return 1 / 0\n", fields="evaluate=evaluate")
    result = train(tmp_path, file, engine="torch", stop="steps=5", eval_every=0)
    assert result.status == "ok", result.reason
    assert result.final.loss is None


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ('metrics=("auc",)', "unknown metric 'auc'"),
        ('metrics=("f1",), evaluate=print', r"write Metric\('f1', 'higher'\)"),
        ('metrics=(Metric("f1", "up"),), evaluate=print', "must be 'higher' or 'lower'"),
        ('metrics=(Metric("f1", "lower"),)', "needs a function evaluate"),
        ('metrics=(Metric("loss", "lower"),), evaluate=print', "one of Paceline's stop rules"),
        ('metrics=("top5",), test=None', "metrics needs a test set: give test, or remove metrics"),
        ("evaluate=3", "evaluate must be a function"),
        ('optimizer="adm"', "unknown optimizer 'adm'"),
        ("clip=-1", "clip -1: must be above 0"),
    ],
)
def test_an_invalid_field_is_refused_in_one_line(tmp_path: Path, fields: str, line: str) -> None:
    if "optimizer" in fields:
        file = write(tmp_path)
        file.write_text(file.read_text().replace('optimizer="adam"', fields))
    else:
        file = write(tmp_path, fields=fields)
    with pytest.raises(SpecError, match=line):
        load_user_workload(str(file))
