"""Everything that trains, by engine and strategy, in real runs: all cells in the slow tests, some in the others."""

from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.engines.registry import ENGINES
from paceline.store.result import Result
from paceline.strategies.registry import strategies
from paceline.workloads.registry import WORKLOADS, workload

LAYOUTS = {"single": "w", "ps-sync": "pw w", "ps-async": "pw w", "allreduce": "w w"}
ALWAYS = {
    ("sparse-logreg:sparse", "torch", "ps-sync"),
    ("sparse-logreg:sparse", "torch", "ps-async"),
    ("sparse-logreg:sparse", "tensorflow", "ps-sync"),
    ("sparse-logreg:sparse", "tensorflow", "ps-async"),
    ("sparse-logreg:dense", "torch", "ps-async"),
    ("alexnet:cifar", "torch", "ps-sync"),
    ("alexnet:cifar", "torch", "allreduce"),
    ("alexnet:cifar", "tensorflow", "ps-async"),
    ("autoencoder:small", "tensorflow", "allreduce"),
    ("autoencoder:large", "torch", "ps-sync"),
    ("autoencoder:large", "tensorflow", "ps-sync"),
    ("spatial-transformer:small", "tensorflow", "ps-sync"),
    ("spatial-transformer:small", "torch", "allreduce"),
    ("spatial-transformer:large", "torch", "ps-async"),
}


def cells() -> list[Any]:
    found = []
    for sizes in WORKLOADS.values():
        for one in (one for one in sizes.values() if one.model):
            for engine in ENGINES:
                for strategy in strategies().values():
                    if one.model and not strategy.reason_against(one.refused):
                        cell = (one.title, engine, strategy.name)
                        marks = [] if cell in ALWAYS else [pytest.mark.slow]
                        found.append(pytest.param(*cell, marks=marks, id=" ".join(cell)))
    return found


def train(tmp_path: Path, title: str, **fields: Any) -> Result:
    (result,) = paceline.run(title, runs=str(tmp_path / "runs"), **fields)
    return result


@pytest.mark.parametrize(("title", "engine", "strategy"), cells())
def test_a_cell_trains(tmp_path: Path, title: str, engine: str, strategy: str) -> None:
    name, _, size = title.partition(":")
    model = workload(name, size).model
    assert model
    heavy = model.size > 1_000_000 and not model.by_rows
    steps, batch = (4, 4) if heavy else (30, 20)
    result = train(
        tmp_path, title, engine=engine, strategy=strategy, layout=LAYOUTS[strategy], batch=batch,
        stop=f"steps={steps}", eval_examples=100,
    )  # fmt: skip
    assert (result.status, result.reason) == ("ok", None)
    assert result.updates == steps
    assert all(worker.steps > 0 for worker in result.workers)
    assert result.final.loss is not None
    assert (result.final.accuracy is None) == (name == "autoencoder")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("strategy", "layout"), [("ps-sync", "pw w"), ("allreduce", "w w")])
def test_lenet_on_two_workers_is_lenet_on_one(tmp_path: Path, engine: str, strategy: str, layout: str) -> None:
    together = train(
        tmp_path, "lenet", engine=engine, strategy=strategy, layout=layout, batch=25, stop="steps=60", lr=0.05
    )
    alone = train(tmp_path, "lenet", engine="torch", batch=50, stop="steps=60", lr=0.05)
    assert together.examples == alone.examples == 3_000
    assert together.final.loss == pytest.approx(alone.final.loss, rel=2e-2)


def test_the_same_global_batch_gives_the_same_loss_on_one_two_and_three_workers(tmp_path: Path) -> None:
    """With dropout and momentum: a sum that should be a mean would show three times over."""
    found = [
        train(
            tmp_path, "alexnet:cifar", strategy=strategy, layout=layout, batch=batch, stop="steps=3", eval_examples=200
        ).final.loss
        for strategy, layout, batch in (
            ("single", "w", 12),
            ("ps-sync", "pw w", 6),
            ("ps-sync", "pw w w", 4),
            ("allreduce", "w w w", 4),
        )
    ]
    assert found == pytest.approx([found[0]] * len(found), abs=1e-4)


def test_sparse_regression_learns_what_the_base_rate_does_not_know(tmp_path: Path) -> None:
    result = train(tmp_path, "sparse-logreg", strategy="ps-async", layout="pw w", stop="steps=3000")
    assert result.final.auc is not None
    assert result.final.auc > 0.7
    assert result.final.accuracy is not None
    assert result.final.accuracy > 0.77  # Always saying no is right in three of four.


@pytest.mark.parametrize(("strategy", "layout"), [("ps-sync", "pw pw"), ("ps-async", "pw w")])
@pytest.mark.parametrize("title", ["lenet", "sparse-logreg"])
def test_memory_and_messages_carry_the_same(tmp_path: Path, title: str, strategy: str, layout: str) -> None:
    """One worker's pushes in async, or all in sync: the same numbers whichever way they go."""
    layout = layout if strategy == "ps-sync" else "pw"
    losses = [
        train(tmp_path, title, strategy=strategy, layout=layout, batch=20, stop="steps=40", transport=way).final.loss
        for way in ("memory", "tcp")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.slow
def test_all_reduced_gradients_are_the_same_through_memory_and_gloo(tmp_path: Path) -> None:
    """Large ones, over enough steps that both halves of the memory are written to again and again.

    The sums differ in their last bits, and steps at the usual rate would make more of that than of any mistake.
    """
    losses = [
        train(
            tmp_path, "alexnet:cifar", strategy="allreduce", layout="w w w", batch=4, stop="steps=9",
            eval_examples=200, lr=0.001, transport=way,
        ).final.loss
        for way in ("memory", "tcp")
    ]  # fmt: skip
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
def test_sparse_regression_on_two_workers_is_that_on_one(tmp_path: Path, engine: str) -> None:
    together = train(
        tmp_path, "sparse-logreg", engine=engine, strategy="ps-sync", layout="pw pw", batch=25, stop="steps=40",
    )  # fmt: skip
    alone = train(tmp_path, "sparse-logreg", batch=50, stop="steps=40")
    assert together.final.loss == pytest.approx(alone.final.loss, rel=1e-4)


def test_checkpoints_of_a_sparse_model_take_no_updates(tmp_path: Path) -> None:
    result = train(tmp_path, "sparse-logreg", strategy="ps-async", layout="pw", stop="steps=12", checkpoint_every=5)
    assert result.updates == 12


def test_fewer_examples_are_used_again_and_again(tmp_path: Path) -> None:
    few = train(tmp_path, "logreg", examples=100, batch=50, stop="epochs=40")
    assert few.updates == 80
    assert few.final.accuracy is not None
    assert 0.5 < few.final.accuracy < 0.85


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("title", "steps"), [("lenet", 100), ("alexnet:cifar", 10)])
def test_reading_examples_takes_little_of_a_step(tmp_path: Path, title: str, steps: int, engine: str) -> None:
    result = train(tmp_path, title, engine=engine, batch=50, stop=f"steps={steps}", eval_examples=100)
    phases = result.workers[0].phases
    assert phases["data"] < 0.05 * (phases["data"] + phases["compute"])
