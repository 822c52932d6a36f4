import subprocess
import sys

import pytest

from paceline.engines.registry import engines
from paceline.strategies.descriptor import Strategy
from paceline.strategies.registry import strategies


def test_the_strategies_are_found_by_entry_points() -> None:
    assert set(strategies()) >= {"single", "ps-sync", "ps-async", "allreduce"}
    assert all(name == strategy.name for name, strategy in strategies().items())


def test_every_engine_has_only_strategies_that_are_described() -> None:
    for engine in engines().values():
        assert engine.strategies <= set(strategies())


@pytest.mark.parametrize("strategy", strategies().values(), ids=strategies())
def test_a_descriptor_agrees_with_itself(strategy: Strategy) -> None:
    assert all(name in strategies() for name in strategy.counterparts)
    assert strategy.barrier_phase is None or strategy.barrier_phase in strategy.phases
    assert (strategy.waits == "never") == (strategy.barrier_phase is None)
    assert (strategy.multi_worker_counterpart is not None) == strategy.single_worker
    for sentence in (strategy.update, strategy.waiting, strategy.checkpoint):
        assert sentence.endswith(".")


def test_only_strategies_without_servers_mix_waiting_with_the_exchange() -> None:
    assert {name: strategy.mixed_phase for name, strategy in strategies().items() if strategy.mixed_phase} == {
        "allreduce": "push",
        "diloco": "push",
        "local-sgd": "push",
        "user-script": "exchange",
    }


def test_counterparts_are_what_they_are_called() -> None:
    for strategy in strategies().values():
        for name, synchronous in (
            (strategy.asynchronous_counterpart, False),
            (strategy.synchronous_counterpart, True),
        ):
            assert name is None or strategies()[name].synchronous is synchronous
        several = strategy.multi_worker_counterpart
        assert several is None or not strategies()[several].single_worker


def test_no_framework_and_no_table_library_is_loaded_for_the_strategies() -> None:
    code = (
        "import sys; from paceline.strategies.registry import strategies; strategies();"
        "print(sorted({'torch', 'tensorflow', 'numpy', 'polars'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
