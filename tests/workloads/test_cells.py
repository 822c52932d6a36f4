"""Real runs of workloads by engine and strategy: all combinations in the slow tests, some of them in the others."""

from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.engines.registry import engines
from paceline.plan.place import LARGEST_DEFAULT_HEAP_GIB
from paceline.store.result import Result
from paceline.strategies.registry import strategies
from paceline.workloads.registry import WORKLOADS, workload

LAYOUTS = {
    "single": "w", "ps-sync": "pw w", "ps-async": "pw w", "allreduce": "w w", "bsp-sgd": "pw w", "lbfgs": "pw w",
    "ssp": "pw w", "local-sgd": "w w", "diloco": "w w",
}  # fmt: skip
NOT_SLOW = {
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


def combinations() -> list[Any]:
    """Every workload with every engine and strategy that it supports."""
    parameters = []
    for sizes in WORKLOADS.values():
        for item in (item for item in sizes.values() if item.model):
            for engine, able in engines().items():
                for strategy, descriptor in strategies().items():
                    refused = descriptor.reason_against(item.refused) or (
                        descriptor.linear_models_only and not (item.model and item.model.is_linear)
                    )
                    if item.model and descriptor.driver_memory_gib(item.model.size) > LARGEST_DEFAULT_HEAP_GIB:
                        continue
                    if strategy in able.strategies and able.can_run(item) and not refused:
                        combination = (item.title, engine, strategy)
                        marks = [] if combination in NOT_SLOW else [pytest.mark.slow]
                        parameters.append(pytest.param(*combination, marks=marks, id=" ".join(combination)))
    return parameters


def train(tmp_path: Path, title: str, **fields: Any) -> Result:
    (result,) = paceline.run(title, runs=str(tmp_path / "runs"), check=False, **fields)
    return result


@pytest.mark.parametrize(("title", "engine", "strategy"), combinations())
def test_a_workload_trains_with_engine_and_strategy(tmp_path: Path, title: str, engine: str, strategy: str) -> None:
    name, _, size = title.partition(":")
    model = workload(name, size).model
    assert model
    is_large = model.size > 1_000_000 and not model.by_rows
    steps, batch = (4, 4) if is_large else (30, 20)
    result = train(
        tmp_path, title, engine=engine, strategy=strategy, layout=LAYOUTS[strategy], batch=batch,
        stop=f"steps={steps}", eval_examples=100, examples=2_000,
    )  # fmt: skip
    assert (result.status, result.reason) == ("ok", None)
    assert result.updates == steps
    assert all(worker.steps > 0 for worker in result.workers)
    assert result.final.loss is not None
    assert (result.final.accuracy is None) == (name == "autoencoder")


@pytest.mark.parametrize("engine", ["torch", "tensorflow"])
@pytest.mark.parametrize(("strategy", "layout"), [("ps-sync", "pw w"), ("allreduce", "w w")])
def test_lenet_on_two_workers_gives_the_loss_of_one_worker(
    tmp_path: Path, engine: str, strategy: str, layout: str
) -> None:
    together = train(
        tmp_path, "lenet", engine=engine, strategy=strategy, layout=layout, batch=25, stop="steps=20", lr=0.05
    )
    single = train(tmp_path, "lenet", engine="torch", batch=50, stop="steps=20", lr=0.05)
    assert together.examples == single.examples == 1_000
    # Few steps: the number of threads changes the last bit of a sum after about 30, and the loss by 2 % after 60.
    assert together.final.loss == pytest.approx(single.final.loss, rel=1e-4)


def test_the_same_global_batch_gives_the_same_loss_on_one_two_and_three_workers(tmp_path: Path) -> None:
    """With dropout and momentum. A sum in place of a mean would give very different losses."""
    losses = [
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
    assert losses == pytest.approx([losses[0]] * len(losses), abs=1e-4)


def test_sparse_regression_learns_more_than_the_base_rate(tmp_path: Path) -> None:
    result = train(tmp_path, "sparse-logreg", strategy="ps-async", layout="pw w", stop="steps=3000")
    assert result.final.auc is not None
    assert result.final.auc > 0.7
    assert result.final.accuracy is not None
    assert result.final.accuracy > 0.77  # The constant answer 0 is right for three quarters of the examples.


@pytest.mark.parametrize(("strategy", "layout"), [("ps-sync", "pw pw"), ("ps-async", "pw w")])
@pytest.mark.parametrize("title", ["lenet", "sparse-logreg"])
def test_memory_and_tcp_transports_give_the_same_loss(tmp_path: Path, title: str, strategy: str, layout: str) -> None:
    """With one worker (ps-async) or in ps-sync a run is reproducible, so the transport must make no difference."""
    layout = layout if strategy == "ps-sync" else "pw"
    losses = [
        train(
            tmp_path, title, strategy=strategy, layout=layout, batch=20, stop="steps=40", transport=transport
        ).final.loss
        for transport in ("memory", "tcp")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.slow
def test_allreduce_through_memory_and_gloo_gives_the_same_loss(tmp_path: Path) -> None:
    """Large gradients, over enough steps that both halves of the shared memory are written several times.

    The sums differ in their last bits. The learning rate is low, since the usual one would amplify these differences.
    """
    losses = [
        train(
            tmp_path, "alexnet:cifar", strategy="allreduce", layout="w w w", batch=4, stop="steps=9",
            eval_examples=200, lr=0.001, transport=transport,
        ).final.loss
        for transport in ("memory", "tcp")
    ]  # fmt: skip
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("engine", ["torch", "tensorflow"])
def test_sparse_regression_on_two_workers_gives_the_loss_of_one_worker(tmp_path: Path, engine: str) -> None:
    together = train(
        tmp_path, "sparse-logreg", engine=engine, strategy="ps-sync", layout="pw pw", batch=25, stop="steps=40",
    )  # fmt: skip
    single = train(tmp_path, "sparse-logreg", batch=50, stop="steps=40")
    assert together.final.loss == pytest.approx(single.final.loss, rel=1e-4)


def test_checkpoints_of_a_sparse_model_do_not_count_as_updates(tmp_path: Path) -> None:
    result = train(tmp_path, "sparse-logreg", strategy="ps-async", layout="pw", stop="steps=12", checkpoint_every=5)
    assert result.updates == 12


def test_a_reduced_training_set_is_repeated_in_every_epoch(tmp_path: Path) -> None:
    result = train(tmp_path, "logreg", examples=100, batch=50, stop="epochs=40")
    assert result.updates == 80
    assert result.final.accuracy is not None
    assert 0.5 < result.final.accuracy < 0.85


@pytest.mark.alone
@pytest.mark.parametrize("engine", ["torch", "tensorflow"])
@pytest.mark.parametrize(("title", "steps"), [("lenet", 100), ("alexnet:cifar", 10)])
def test_reading_examples_takes_less_than_5_percent_of_a_step(
    tmp_path: Path, title: str, steps: int, engine: str
) -> None:
    result = train(tmp_path, title, engine=engine, batch=50, stop=f"steps={steps}", eval_examples=100)
    phases = result.workers[0].phases
    assert phases["data"] < 0.05 * (phases["data"] + phases["compute"])
