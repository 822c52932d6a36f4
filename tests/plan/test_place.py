from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.available import catalog
from paceline.errors import PlanError
from paceline.plan.catalog import Catalog, EngineFacts, HostKindFacts, WorkloadFacts
from paceline.plan.place import DEFAULT_EVAL_EVERY, DEFAULT_TIME_LIMIT_S, RunPlan, place
from paceline.spec.load import experiment
from paceline.spec.sweep import expand
from paceline.strategies.registry import strategies

_ALL_STRATEGIES = frozenset({"single", "ps-sync", "ps-async", "allreduce"})
CATALOG = Catalog(
    engines={
        "torch": EngineFacts(strategies=_ALL_STRATEGIES, installed=True, install_hint=""),
        "absent": EngineFacts(strategies=_ALL_STRATEGIES, installed=False, install_hint="pip install it"),
        "partial": EngineFacts(strategies=frozenset({"single"}), installed=True, install_hint=""),
    },
    workloads={
        "logreg": {"": WorkloadFacts(train_examples=60_000, engines=frozenset({"torch", "absent", "partial"}))},
        "sized": {
            "small": WorkloadFacts(train_examples=600, engines=frozenset({"torch"})),
            "large": WorkloadFacts(
                train_examples=600, engines=frozenset({"torch"}), refused={"sends_every_parameter": "it is too large"}
            ),
        },
    },
    strategies=strategies(),
    hosts={
        "local": HostKindFacts(shares_one_machine=True, shares_memory=True, private_network=True),
        "netns": HostKindFacts(limits=frozenset({"link", "latency", "cpus"}), faults=frozenset({"cut"}), needs="root"),
        "files": HostKindFacts(argument="FILE", limits=frozenset({"cpus"})),
    },
    broken_engines={"rusty": "ImportError: no module named rust"},
    broken_hosts={"foggy": "ImportError: no module named fog"},
)


def make_plan(**fields: Any) -> RunPlan:
    (spec,) = expand(experiment({"workload": "logreg", **fields}))
    return place(spec, CATALOG)


def test_synchronous_epoch_has_fewer_updates_than_an_asynchronous_one() -> None:
    assert make_plan(strategy="ps-sync", layout="cluster2", stop="epochs=2").update_limit == 400
    assert make_plan(strategy="ps-async", layout="cluster2", stop="epochs=2").update_limit == 1200
    assert make_plan(stop="epochs=2").update_limit == 1200


def test_stop_rules_of_loss_make_evaluations_periodic() -> None:
    assert make_plan(stop="steps=10").eval_every is None
    assert make_plan(stop="loss=0.35").eval_every == 100
    assert make_plan(stop="loss=0.35", eval_every=7).eval_every == 7


def test_a_run_that_may_never_reach_its_target_has_a_time_limit() -> None:
    assert make_plan(stop=["loss=0.3", "accuracy=0.9"]).time_limit_s == DEFAULT_TIME_LIMIT_S
    assert make_plan(stop=["loss=0.3"], time_limit="2h").time_limit_s == 7200
    for other in ("steps=100", "epochs=1", "seconds=5", "plateau=10"):
        assert make_plan(stop=["loss=0.3", other]).time_limit_s is None
    assert make_plan(stop="steps=100", time_limit="90s").time_limit_s == 90


def test_plateau_makes_evaluations_periodic() -> None:
    assert make_plan(stop="plateau=5").eval_every == DEFAULT_EVAL_EVERY


def test_argument_of_the_hosts_stays_in_the_spec() -> None:
    assert make_plan(hosts="files:a/b:c").spec.hosts == "files:a/b:c"


def test_default_layout_is_one_worker_or_a_cluster_of_two() -> None:
    assert str(make_plan().layout) == "w"
    assert str(make_plan(strategy="ps-async").layout) == "pw w"
    assert str(make_plan(strategy="allreduce").layout) == "w w"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workload": "logrge"}, "did you mean logreg"),
        ({"engine": "torhc"}, "did you mean torch"),
        ({"engine": "rusty"}, "engine rusty cannot be loaded: ImportError: no module named rust"),
        ({"hosts": "foggy"}, "hosts foggy cannot be loaded: ImportError: no module named fog"),
        ({"hosts": "lcoal"}, "did you mean local"),
        ({"hosts": "local:x"}, "hosts local takes no argument: write --hosts local instead of --hosts local:x"),
        ({"link": "1gbit"}, r"--link is not supported on hosts local: use --hosts netns \(root\)$"),
        ({"cpus": "0.5"}, r"--cpus .* use --hosts netns \(root\) or --hosts files:FILE$"),
        ({"latency": "1ms", "hosts": "files:a"}, "--latency is not supported on hosts files: use --hosts netns"),
        ({"fault": "cut h1 for 1s at 1s"}, "fault 'cut h1 .*' is not supported on hosts local: use --hosts netns"),
        ({"fault": "slow h1 to 0.5 cpus at 1s"}, "is not supported on hosts local: leave it out"),
        ({"strategy": "ps-asynch"}, "did you mean ps-async"),
        ({"hosts": "netsn"}, "did you mean netns"),
        ({"engine": "absent"}, "pip install it"),
        ({"engine": "partial", "strategy": "allreduce"}, "choose from single"),
        ({"strategy": "ps-sync", "layout": "w w"}, "add a p"),
        ({"strategy": "allreduce", "layout": "pw w"}, "remove the p"),
        ({"strategy": "ps-sync", "layout": "p"}, "no worker"),
        ({"strategy": "single", "layout": "w w"}, "layout single"),
        ({"batch": 60_001}, "shard of 60000"),
        ({"strategy": "allreduce", "layout": "cluster2", "batch": 20_001}, "shard of 20000"),
        ({"strategy": "ps-async", "layout": "cluster2", "stop": "steps=2"}, "without a step"),
    ],
)
def test_impossible_combination_is_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message) as refusal:
        make_plan(**fields)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("strategy", sorted(CATALOG.engines["torch"].strategies))
@given(st.integers(1, 8), st.floats(1e-6, 10))
def test_linear_scaling_multiplies_the_learning_rate_by_the_gradients_of_an_update(
    strategy: str, workers: int, lr: float
) -> None:
    descriptor = strategies()[strategy]
    count = 1 if descriptor.single_worker else workers
    layout = " ".join(["pw" if descriptor.has_servers else "w", *["w"] * (count - 1)])
    fields: dict[str, Any] = {"strategy": strategy, "layout": layout, "lr": lr}
    scaled, plain = make_plan(**fields, lr_scale="linear"), make_plan(**fields)
    assert plain.optimizer.lr == lr
    assert scaled.optimizer.lr == (lr * count if descriptor.synchronous else lr)


def test_linear_scaling_counts_only_the_gradients_that_an_update_waits_for() -> None:
    assert strategies()["ps-sync"].gradients_per_update(3, backup=1) == 2


def test_first_size_is_the_default() -> None:
    assert make_plan(workload="sized").size == "small"
    assert make_plan(workload="sized:large").size == make_plan(workload="sized", size="large").size == "large"
    assert make_plan().size == ""


def test_fewer_examples_make_an_epoch_shorter() -> None:
    assert make_plan(examples=1_000, stop="epochs=2").update_limit == 20


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"workload": "sized", "size": "larg"}, "unknown size of sized 'larg': did you mean large"),
        ({"size": "large"}, "logreg has only one size: remove --size large"),
        (
            {"workload": "sized:large", "strategy": "allreduce"},
            "sized:large does not support strategy allreduce: it is too",
        ),
        ({"examples": 60_001}, "examples 60001: must be at most 60,000"),
        ({"workload": "sized", "engine": "partial"}, "sized:small does not run on engine partial: use torch"),
    ],
)
def test_option_that_the_workload_does_not_support_is_refused(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(PlanError) as refusal:
        make_plan(**fields)
    assert str(refusal.value).startswith(line)


def test_only_hosts_with_shared_memory_use_it() -> None:
    """Uses the real catalog. On netns, values must cross the link that the run measures."""
    choices = catalog()
    for hosts, transport in (("local", "memory"), ("netns", "tcp")):
        (spec,) = expand(experiment({"workload": "logreg", "strategy": "ps-async", "hosts": hosts}))
        assert place(spec, choices).transport == transport
    (spec,) = expand(
        experiment({"workload": "logreg", "strategy": "ps-async", "hosts": "netns", "transport": "memory"})
    )
    with pytest.raises(PlanError, match="share no memory"):
        place(spec, choices)


def test_momentum_is_refused_for_sparse_models() -> None:
    (spec,) = expand(experiment({"workload": "sparse-logreg", "momentum": 0.9}))
    with pytest.raises(PlanError, match="momentum changes all rows"):
        place(spec, catalog())
