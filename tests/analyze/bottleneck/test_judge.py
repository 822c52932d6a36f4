"""The bottleneck that is found for constructed facts: one example per cause, and cases that are not clear."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import pipeline
from paceline.analyze.bottleneck.facts import Facts, HostFacts, LinkFacts, Phases, ServerFacts, TaskUse, WorkerFacts
from paceline.analyze.bottleneck.judge import NOT_CLEAR, judge
from paceline.analyze.bottleneck.remedies import Configuration, configuration_of
from paceline.analyze.bottleneck.suspects import suspects
from paceline.data.dataset import PreparedData
from paceline.spec.load import experiment
from paceline.store.header import ResumePoint


def configuration(**fields: Any) -> Configuration:
    """The configuration of a run with these options."""
    (plan,) = pipeline.plan(experiment({"workload": "logreg", "layout": "p w w", **fields}))
    data = PreparedData(paths=(), source="none", synthetic=True)
    return configuration_of(pipeline.header_of(plan, data, ResumePoint(), clock_zero_ns=0))


CONFIGURATION = configuration(strategy="ps-sync")


def worker(number: int = 0, steps: int = 1000, waiting: float = 0.0, **phases: float) -> WorkerFacts:
    return WorkerFacts(
        task=f"w{number}",
        host=f"h{number + 2}",
        steps=steps,
        phases=Phases(**phases),
        use=TaskUse(cpu_cores=1 - waiting, run_wait=waiting),
    )


def facts(*workers: WorkerFacts, **more: Any) -> Facts:
    servers = more.setdefault("servers", ())
    hosts = [
        HostFacts(host=task.host, tasks=(task.task,), cpu_cores=task.use.cpu_cores) for task in (*workers, *servers)
    ]
    base: dict[str, Any] = {"synchronous": False, "seconds": 10.0, "total_s": 15.0, "startup_s": 5.0}
    return Facts(**{**base, "workers": workers, "hosts": tuple(hosts), "machine_cores": 8, **more})


def with_cpu_limit(base: Facts, host: str, cpus: float) -> Facts:
    """The facts with a host that has this CPU limit and uses all of it."""
    hosts = (
        msgspec.structs.replace(facts, cpus=cpus, cpu_cores=cpus) if facts.host == host else facts
        for facts in base.hosts
    )
    return msgspec.structs.replace(base, hosts=tuple(hosts))


def server(number: int = 0, **fields: Any) -> ServerFacts:
    return ServerFacts(task=f"ps{number}", host=f"s{number}", **fields)


def link(utilization: float, host: str = "s0") -> LinkFacts:
    return LinkFacts(host=host, direction="outbound", mb_s=10 * utilization, capacity_mb_s=10, known_from="by --link")


def test_mostly_computing_is_compute() -> None:
    verdict = judge(facts(worker(compute=9, push=1)), CONFIGURATION)
    assert (verdict.cause, verdict.where, verdict.confidence) == ("compute", "w0 on h2", "high")
    assert verdict.share == pytest.approx(0.9)
    assert verdict.remedy[0].endswith("--strategy ps-sync --layout 'p w w w' --batch 100 --hosts local --stop epochs=1")


def test_time_throttled_by_a_cpu_limit_counts_as_compute_of_that_worker() -> None:
    free, slow = worker(0, compute=2, push=0.5, wait=7.5), worker(1, compute=0.3, pull=9.7, waiting=0.9)
    verdict = judge(with_cpu_limit(facts(free, slow), "h3", 0.1), CONFIGURATION)
    assert (verdict.cause, verdict.where) == ("compute", "w1 on h3")
    assert verdict.evidence[0] == (
        "the workers spent 12 % of their time computing and 44 % on other work slowed down by the CPU limit"
    )


def test_compute_time_far_above_the_arithmetic_is_overhead() -> None:
    verdict = judge(facts(worker(compute=9, data=1), arithmetic_s=1e-6), CONFIGURATION)
    assert verdict.cause == "overhead"
    assert "--batch 400" in verdict.remedy[0]


def test_a_saturated_link_explains_the_whole_exchange() -> None:
    run_facts = facts(
        worker(compute=1, pull=5, push=4), servers=(server(busy=0.1),), links=(link(0.95), link(0.4, "h2"))
    )
    verdict = judge(run_facts, CONFIGURATION)
    assert (verdict.cause, verdict.where) == ("network", "s0, outbound link")
    assert verdict.share == pytest.approx(0.9)
    assert "95 % of its capacity" in verdict.evidence[0]


def test_a_link_at_a_third_of_its_capacity_explains_a_third_of_the_time() -> None:
    ranked = suspects(facts(worker(compute=5, pull=5), links=(link(0.33),)))
    assert {suspect.cause: round(suspect.share, 2) for suspect in ranked} == {
        "compute": 0.5,
        "network": 0.33,
        "overhead": 0.17,
    }


def test_a_busy_server_comes_before_a_less_utilized_link() -> None:
    run_facts = facts(worker(compute=1, pull=9), servers=(server(busy=0.9),), links=(link(0.5),))
    assert judge(run_facts, CONFIGURATION).cause == "server"


def test_a_worker_that_all_others_wait_for_is_a_straggler() -> None:
    slow, quick = worker(1, compute=9, wait=0.5, push=0.5), worker(0, compute=1, wait=8.5, push=0.5)
    verdict = judge(facts(quick, slow, synchronous=True, last_at_barrier={"w0": 0.0, "w1": 1.0}), CONFIGURATION)
    assert (verdict.cause, verdict.where) == ("straggler", "w1 on h3")
    assert verdict.share == pytest.approx(0.8)
    assert "--strategy ps-async" in " ".join(verdict.remedy)


def test_the_cpu_limit_of_a_straggler_is_in_evidence_and_remedy() -> None:
    slow, quick = worker(1, compute=9, wait=1), worker(0, compute=1, wait=9)
    limited = msgspec.structs.replace(CONFIGURATION, spec=msgspec.structs.replace(CONFIGURATION.spec, cpus="- - 0.1"))
    verdict = judge(with_cpu_limit(facts(quick, slow, synchronous=True), "h3", 0.1), limited)
    assert verdict.cause == "straggler"
    assert any("0.10 of the 0.1 cores" in line for line in verdict.evidence)
    assert "allow every host the same number of cores" in verdict.remedy[0]


def test_waiting_among_equal_workers_is_the_barrier() -> None:
    workers = [worker(number, compute=3, wait=7) for number in range(3)]
    verdict = judge(facts(*workers, synchronous=True, last_at_barrier={"w0": 0.3, "w1": 0.3, "w2": 0.4}), CONFIGURATION)
    assert (verdict.cause, verdict.where) == ("barrier", "all workers")


def test_a_slow_exchange_over_a_saturated_link_is_not_a_straggler() -> None:
    """Only the worker on the host of the server needs no link; the others are slower because of the link."""
    near, far = worker(0, compute=1, wait=9), worker(1, compute=1, pull=9)
    verdict = judge(facts(near, far, synchronous=True, links=(link(0.9),)), CONFIGURATION)
    assert verdict.cause == "network"


def test_waiting_for_cores_is_contention_only_if_the_cores_are_saturated() -> None:
    workers = [worker(number, compute=10, waiting=0.6) for number in range(3)]
    verdict = judge(facts(*workers, machine_cores=1), CONFIGURATION)
    assert (verdict.cause, verdict.where) == ("contention", "the machine's 1 core")
    assert "--layout 'p w'" in verdict.remedy[0]
    # With free cores, the tasks waited only because the system was slow to wake them up.
    assert judge(facts(*workers, machine_cores=8), CONFIGURATION).cause == "compute"


def test_an_asynchronous_worker_that_makes_most_updates_is_an_imbalance() -> None:
    verdict = judge(
        facts(worker(0, steps=900, compute=5, push=5), worker(1, steps=100, compute=5, push=5)), CONFIGURATION
    )
    assert (verdict.cause, verdict.where) == ("imbalance", "w0 on h2")
    assert "90 %" in verdict.evidence[0]


def test_unevenly_loaded_servers_are_an_imbalance_that_names_the_largest_parameter() -> None:
    servers = (
        server(0, busy=0.9, parameter_sizes={"0.weight": 7840}),
        server(1, busy=0.1, parameter_sizes={"0.bias": 10}),
    )
    verdict = judge(facts(worker(compute=1, pull=9), servers=servers), CONFIGURATION)
    assert (verdict.cause, verdict.where) == ("imbalance", "ps0 on s0")
    assert any("0.weight" in line for line in verdict.evidence)


def test_the_bottleneck_of_a_few_steps_is_startup() -> None:
    verdict = judge(facts(worker(steps=5, compute=0.1), seconds=0.1, startup_s=5, total_s=5.2), CONFIGURATION)
    assert (verdict.cause, verdict.confidence) == ("startup", "high")


def test_input_evaluation_and_checkpoints_are_causes_too() -> None:
    for phase, cause in (("data", "input"), ("eval", "evaluation"), ("checkpoint", "checkpoint")):
        spent: dict[str, Any] = {"compute": 2, phase: 8}
        assert judge(facts(worker(**spent)), CONFIGURATION).cause == cause


def test_two_causes_with_the_same_share_are_not_clear() -> None:
    verdict = judge(facts(worker(compute=5, data=5)), CONFIGURATION)
    assert (verdict.cause, verdict.remedy, verdict.confidence) == (NOT_CLEAR, [], "low")
    assert {"input", "compute"} == {line.split()[0] for line in verdict.evidence[1:]}


def test_causes_below_a_quarter_of_the_time_are_not_clear() -> None:
    shares: dict[str, Any] = dict.fromkeys(("compute", "data", "eval", "checkpoint", "other"), 2.0)
    assert judge(facts(worker(**shares)), CONFIGURATION).cause == NOT_CLEAR


def test_a_run_without_steps_is_not_clear() -> None:
    assert judge(facts(worker(steps=0)), CONFIGURATION).cause == NOT_CLEAR


def test_few_steps_or_low_coverage_lower_the_confidence() -> None:
    assert judge(facts(worker(steps=30, compute=10)), CONFIGURATION).confidence == "medium"
    assert judge(facts(worker(steps=10, compute=10)), CONFIGURATION).confidence == "low"
    assert judge(facts(worker(compute=10), coverage=0.8), CONFIGURATION).confidence == "medium"


_seconds = st.floats(0, 100)
_worker = st.builds(
    lambda number, steps, waiting, phases: worker(number, steps, waiting, **phases),
    st.integers(0, 3), st.integers(0, 10_000), st.floats(0, 1),
    st.fixed_dictionaries(dict.fromkeys(Phases.__struct_fields__, _seconds)),
)  # fmt: skip


@given(
    st.lists(_worker, min_size=1, max_size=4), st.booleans(), st.floats(0, 1.2), st.floats(0, 1),
    st.none() | st.floats(0, 1), st.integers(1, 8),
)  # fmt: skip
def test_shares_are_between_0_and_1_for_any_facts(
    workers: list[WorkerFacts], synchronous: bool, utilization: float, busy: float, arithmetic: float | None, cores: int
) -> None:
    run_facts = facts(
        *workers, synchronous=synchronous, links=(link(utilization),), servers=(server(busy=busy),),
        arithmetic_s=arithmetic, machine_cores=cores,
    )  # fmt: skip
    verdict = judge(run_facts, CONFIGURATION)
    assert 0 <= verdict.share <= 1.0001
    assert all(0 < suspect.share <= 1.0001 for suspect in suspects(run_facts)) if verdict.share else True
