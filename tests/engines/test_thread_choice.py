"""A torch worker chooses its number of threads by measurement, and the measurement leaves no trace."""

from collections.abc import Iterator
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import paceline
from paceline.data.batches import Batch
from paceline.engines.torch import threads
from paceline.engines.torch.network import Network
from paceline.engines.torch.user_model import ModuleModel
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun


@pytest.fixture(autouse=True)
def _restore_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Context:
    """The parts of a TaskContext that the choice of threads uses."""

    def __init__(self, *, tune: bool = True, given: int = 2) -> None:
        self.job: Any = SimpleNamespace(threads=given, tune_threads=tune, seed=1)
        self.workload: Any = SimpleNamespace(loss="softmax", train_step=None)
        self.data: Any = SimpleNamespace()
        self.rendezvous: Any = SimpleNamespace(report_threads=self._report)
        self.reported: list[int] = []

    def _report(self, number: int) -> None:
        self.reported.append(number)


def seconds_by_threads(one: float, two: float) -> Any:
    return lambda: sleep(one if torch.get_num_threads() == 1 else two)


@pytest.mark.parametrize(
    ("one", "two", "chosen"), [(0.001, 0.02, 1), (0.02, 0.001, 2)], ids=["one is faster", "two are faster"]
)
def test_the_faster_number_of_threads_is_chosen(one: float, two: float, chosen: int) -> None:
    context = Context()
    threads.warm_up(context, seconds_by_threads(one, two))  # type: ignore[arg-type]
    assert torch.get_num_threads() == chosen
    assert context.reported == [number for number in [chosen] if number != context.job.threads]


@pytest.mark.parametrize(
    ("fields", "one", "two", "most_calls"),
    [({"tune": False}, 0, 0.01, 1), ({"given": 1}, 0, 0, 1), ({}, 0, 0.5, 1), ({}, 0.1, 0.2, 2)],
    ids=["given by the user", "no choice", "large from the first call on", "large with one thread"],
)
def test_nothing_is_measured_without_a_choice_or_for_a_large_model(
    fields: dict[str, Any], one: float, two: float, most_calls: int
) -> None:
    context, calls, compute = Context(**fields), [], seconds_by_threads(one, two)
    threads.warm_up(context, lambda: calls.append(compute()))  # type: ignore[arg-type]
    assert torch.get_num_threads() == context.job.threads
    assert len(calls) <= most_calls
    assert not context.reported


def test_the_measurement_changes_no_parameter_buffer_or_random_state() -> None:
    def module() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))

    context: Any = Context()
    model = ModuleModel(module, context)
    net = Network(model, model.first(1))
    before, buffers = net.vector.copy(), [buffer.clone() for buffer in net.module.buffers()]
    random = torch.get_rng_state()
    net.warm_up(context, Batch((np.random.default_rng(1).random((8, 3), np.float32),), np.zeros(8, np.int64)))
    assert (net.vector == before).all()
    assert all(torch.equal(now, then) for now, then in zip(net.module.buffers(), buffers, strict=True))
    assert torch.equal(torch.get_rng_state(), random)


def test_the_threads_of_each_worker_are_in_the_result_and_a_given_number_is_kept(tmp_path: Path) -> None:
    (given,) = paceline.run("autoencoder:small", runs=str(tmp_path), stop="steps=3", threads=2)
    assert [worker.threads for worker in given.workers] == [2]
    (default,) = paceline.run("autoencoder:small", runs=str(tmp_path), stop="steps=3")
    assigned = [e for e in StoredRun(RunPaths(Path(default.dir))).events if e["event"] == "assigned"]
    assert default.workers[0].threads == assigned[-1]["threads"]
    assert [event.get("chosen_by") for event in assigned] in ([None], [None, "measurement"])
