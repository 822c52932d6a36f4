"""Options that only some strategies have, and the runs for which they are refused."""

import pytest

from paceline.available import catalog
from paceline.errors import PlanError
from paceline.plan.place import place
from paceline.plan.strategy_options import strategy_options, workers_wait
from paceline.spec.run_options import RunSpec
from paceline.strategies.registry import strategies


def test_a_strategy_has_its_defaults_unless_the_user_gives_a_value() -> None:
    diloco = strategies()["diloco"]
    assert strategy_options(RunSpec(workload="lenet", strategy="diloco"), diloco) == {
        "sync_every": 100, "outer_lr": 0.7, "outer_momentum": 0.9,
    }  # fmt: skip
    given = RunSpec(workload="lenet", strategy="diloco", sync_every=7, outer_momentum=0.0, compress="int8")
    assert strategy_options(given, diloco) == {
        "sync_every": 7, "outer_lr": 0.7, "outer_momentum": 0.0, "compress": "int8",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"strategy": "ps-async", "sync_every": 7}, "strategy ps-async has no option sync_every: remove it, or use"),
        ({"strategy": "local-sgd", "outer_lr": 0.5}, "strategy local-sgd has no option outer_lr: .* --strategy diloco"),
        ({"strategy": "ps-sync", "staleness_bound": "0"}, "strategy ps-sync has no option staleness_bound: .* ssp$"),
        ({"strategy": "single", "compress": "int8"}, "strategy single has no option compress"),
        (
            {"strategy": "allreduce", "engine": "tensorflow", "compress": "int8"},
            "engine tensorflow has no option compress: remove it, or use --engine torch",
        ),
        (
            {"strategy": "ps-async", "compress": "int8", "transport": "memory"},
            "shared memory are not compressed: remove transport",
        ),
        (
            {"strategy": "ps-async", "workload": "sparse-logreg", "compress": "int8"},
            "only the rows .*: remove compress",
        ),
        ({"strategy": "diloco", "workload": "matmul"}, "does not support strategy diloco: it trains nothing"),
        ({"strategy": "allreduce", "workload": "matmul", "compress": "int8"}, "is not training .*: remove compress"),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(fields: dict[str, str], message: str) -> None:
    spec = RunSpec(**{"workload": "lenet", **fields})  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=message):
        place(spec, catalog())


@pytest.mark.parametrize(
    ("strategy", "bound", "wait"),
    [
        ("ps-async", None, False),
        ("ssp", None, True),
        ("ssp", "0", True),
        ("ssp", "inf", False),
        ("ps-sync", None, True),
    ],
)
def test_workers_wait_unless_nothing_bounds_how_far_they_are_apart(strategy: str, bound: str, wait: bool) -> None:
    spec = RunSpec(workload="lenet", strategy=strategy, staleness_bound=bound)
    assert workers_wait(spec, strategies()[strategy]) == wait


def test_compressed_values_go_through_sockets_also_on_one_machine() -> None:
    for strategy in ("ps-sync", "ps-async", "ssp", "allreduce"):
        assert place(RunSpec(workload="lenet", strategy=strategy), catalog()).transport == "memory"
        assert place(RunSpec(workload="lenet", strategy=strategy, compress="int8"), catalog()).transport == "tcp"
