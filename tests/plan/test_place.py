from typing import Any

import pytest

from paceline.errors import PlanError
from paceline.pipeline import catalog
from paceline.plan.catalog import Catalog, EngineFacts, HostKindFacts, WorkloadFacts
from paceline.plan.place import RunPlan, place
from paceline.spec.load import experiment
from paceline.spec.sweep import expand
from paceline.strategies.registry import strategies

_ALL = frozenset({"single", "ps-sync", "ps-async", "allreduce"})
CATALOG = Catalog(
    engines={
        "torch": EngineFacts(strategies=_ALL, installed=True, install_hint=""),
        "absent": EngineFacts(strategies=_ALL, installed=False, install_hint="pip install it"),
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
    hosts={"local": HostKindFacts(shares_memory=True), "netns": HostKindFacts()},
)


def planned(**fields: Any) -> RunPlan:
    (spec,) = expand(experiment({"workload": "logreg", **fields}))
    return place(spec, CATALOG)


def test_a_synchronous_epoch_has_fewer_updates_than_an_asynchronous_one() -> None:
    assert planned(strategy="ps-sync", layout="cluster2", stop="epochs=2").update_limit == 400
    assert planned(strategy="ps-async", layout="cluster2", stop="epochs=2").update_limit == 1200
    assert planned(stop="epochs=2").update_limit == 1200


def test_quality_rules_bring_evaluations() -> None:
    assert planned(stop="steps=10").eval_every is None
    assert planned(stop="loss=0.35").eval_every == 100
    assert planned(stop="loss=0.35", eval_every=7).eval_every == 7


def test_defaults_are_one_worker_or_a_small_cluster() -> None:
    assert str(planned().layout) == "w"
    assert str(planned(strategy="ps-async").layout) == "pw w"
    assert str(planned(strategy="allreduce").layout) == "w w"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"workload": "logrge"}, "did you mean logreg"),
        ({"engine": "torhc"}, "did you mean torch"),
        ({"strategy": "ps-asynch"}, "did you mean ps-async"),
        ({"hosts": "netsn"}, "did you mean netns"),
        ({"engine": "absent"}, "pip install it"),
        ({"engine": "partial", "strategy": "allreduce"}, "it has single"),
        ({"strategy": "ps-sync", "layout": "w w"}, "add a p"),
        ({"strategy": "allreduce", "layout": "pw w"}, "leave out the p"),
        ({"strategy": "ps-sync", "layout": "p"}, "no worker"),
        ({"strategy": "single", "layout": "w w"}, "layout single"),
        ({"batch": 60_001}, "shard of 60000"),
        ({"strategy": "allreduce", "layout": "cluster2", "batch": 20_001}, "shard of 20000"),
        ({"strategy": "ps-async", "layout": "cluster2", "stop": "steps=2"}, "without a step"),
    ],
)
def test_what_cannot_work_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError, match=says) as refused:
        planned(**fields)
    assert "\n" not in str(refused.value)


def test_the_first_size_is_the_default() -> None:
    assert planned(workload="sized").size == "small"
    assert planned(workload="sized:large").size == planned(workload="sized", size="large").size == "large"
    assert planned().size == ""


def test_fewer_examples_make_a_shorter_epoch() -> None:
    assert planned(examples=1_000, stop="epochs=2").update_limit == 20


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"workload": "sized", "size": "larg"}, "unknown size of sized 'larg': did you mean large"),
        ({"size": "large"}, "logreg has one size only: leave out --size large"),
        ({"workload": "sized:large", "strategy": "allreduce"}, "sized:large makes no sense with allreduce: it is too"),
        ({"examples": 60_001}, "examples 60001: logreg has 60,000"),
        ({"workload": "sized", "engine": "partial"}, "sized:small does not run on engine partial: use torch"),
    ],
)
def test_what_a_workload_does_not_have_is_refused(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(PlanError) as refusal:
        planned(**fields)
    assert str(refusal.value).startswith(line)


def test_only_neighbours_share_memory() -> None:
    """With the real catalog: a link that values do not pass through would measure nothing."""
    found = catalog()
    for hosts, transport in (("local", "memory"), ("netns", "tcp")):
        (spec,) = expand(experiment({"workload": "logreg", "strategy": "ps-async", "hosts": hosts}))
        assert place(spec, found).transport == transport
    (spec,) = expand(
        experiment({"workload": "logreg", "strategy": "ps-async", "hosts": "netns", "transport": "memory"})
    )
    with pytest.raises(PlanError, match="share no memory"):
        place(spec, found)


def test_sparse_models_have_no_momentum() -> None:
    (spec,) = expand(experiment({"workload": "sparse-logreg", "momentum": 0.9}))
    with pytest.raises(PlanError, match="momentum needs all"):
        place(spec, catalog())
