"""Verdicts of made-up facts: what each cause looks like, and what is not clear."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import pipeline
from paceline.analyze.bottleneck.facts import Facts, HostFacts, LinkFacts, Phases, ServerFacts, TaskUse, WorkerFacts
from paceline.analyze.bottleneck.judge import NOT_CLEAR, judge
from paceline.analyze.bottleneck.remedies import Asked, asked_of
from paceline.analyze.bottleneck.suspects import suspects
from paceline.data.dataset import PreparedData
from paceline.spec.load import experiment
from paceline.store.header import ResumePoint


def asked(**fields: Any) -> Asked:
    """What a run with these options was told to do."""
    (plan,) = pipeline.plan(experiment({"workload": "logreg", "layout": "p w w", **fields}))
    data = PreparedData(paths=(), source="none", synthetic=True)
    return asked_of(pipeline.header_of(plan, data, ResumePoint(), clock_zero_ns=0))


ASKED = asked(strategy="ps-sync")


def worker(number: int = 0, steps: int = 1000, starved: float = 0.0, **phases: float) -> WorkerFacts:
    return WorkerFacts(
        task=f"w{number}",
        host=f"h{number + 2}",
        steps=steps,
        phases=Phases(**phases),
        use=TaskUse(cpu_cores=1 - starved, run_wait=starved),
    )


def facts(*workers: WorkerFacts, **more: Any) -> Facts:
    servers = more.setdefault("servers", ())
    hosts = [HostFacts(host=one.host, tasks=(one.task,), cpu_cores=one.use.cpu_cores) for one in (*workers, *servers)]
    base: dict[str, Any] = {"synchronous": False, "seconds": 10.0, "total_s": 15.0, "startup_s": 5.0}
    return Facts(**{**base, "workers": workers, "hosts": tuple(hosts), "machine_cores": 8, **more})


def held(made: Facts, host: str, cpus: float) -> Facts:
    """With a host that may use no more of a core, and does."""
    hosts = (msgspec.structs.replace(one, cpus=cpus, cpu_cores=cpus) if one.host == host else one for one in made.hosts)
    return msgspec.structs.replace(made, hosts=tuple(hosts))


def server(number: int = 0, **fields: Any) -> ServerFacts:
    return ServerFacts(task=f"ps{number}", host=f"s{number}", **fields)


def link(full: float, host: str = "s0") -> LinkFacts:
    return LinkFacts(host=host, way="out of", mb_s=10 * full, capacity_mb_s=10, known_from="by --link")


def test_computing_most_of_the_time_is_compute() -> None:
    verdict = judge(facts(worker(compute=9, push=1)), ASKED)
    assert (verdict.cause, verdict.where, verdict.confidence) == ("compute", "w0 on h2", "high")
    assert verdict.share == pytest.approx(0.9)
    assert verdict.remedy[0].endswith("--strategy ps-sync --layout 'p w w w' --batch 100 --hosts local --stop epochs=1")


def test_work_that_a_quota_held_up_counts_as_compute_where_it_was() -> None:
    free, slow = worker(0, compute=2, push=0.5, wait=7.5), worker(1, compute=0.3, pull=9.7, starved=0.9)
    verdict = judge(held(facts(free, slow), "h3", 0.1), ASKED)
    assert (verdict.cause, verdict.where) == ("compute", "w1 on h3")
    assert verdict.evidence[0] == (
        "the workers spent 12 % of their time computing and 44 % on other work slowed down by the CPU limit"
    )


def test_compute_that_hardly_calculates_is_overhead() -> None:
    verdict = judge(facts(worker(compute=9, data=1), arithmetic_s=1e-6), ASKED)
    assert verdict.cause == "overhead"
    assert "--batch 400" in verdict.remedy[0]


def test_a_full_link_takes_what_the_exchange_takes() -> None:
    made = facts(worker(compute=1, pull=5, push=4), servers=(server(busy=0.1),), links=(link(0.95), link(0.4, "h2")))
    verdict = judge(made, ASKED)
    assert (verdict.cause, verdict.where) == ("network", "s0, outbound link")
    assert verdict.share == pytest.approx(0.9)
    assert "95 % of its capacity" in verdict.evidence[0]


def test_a_link_that_is_full_a_third_of_the_time_explains_a_third() -> None:
    found = suspects(facts(worker(compute=5, pull=5), links=(link(0.33),)))
    assert {one.cause: round(one.share, 2) for one in found} == {"compute": 0.5, "network": 0.33, "overhead": 0.17}


def test_a_busy_server_before_a_link_that_is_less_full() -> None:
    made = facts(worker(compute=1, pull=9), servers=(server(busy=0.9),), links=(link(0.5),))
    assert judge(made, ASKED).cause == "server"


def test_a_worker_that_all_wait_for_is_a_straggler() -> None:
    slow, quick = worker(1, compute=9, wait=0.5, push=0.5), worker(0, compute=1, wait=8.5, push=0.5)
    verdict = judge(facts(quick, slow, synchronous=True, last={"w0": 0.0, "w1": 1.0}), ASKED)
    assert (verdict.cause, verdict.where) == ("straggler", "w1 on h3")
    assert verdict.share == pytest.approx(0.8)
    assert "--strategy ps-async" in " ".join(verdict.remedy)


def test_a_straggler_held_to_a_share_of_a_core_is_told_so() -> None:
    slow, quick = worker(1, compute=9, wait=1), worker(0, compute=1, wait=9)
    held_back = msgspec.structs.replace(ASKED, spec=msgspec.structs.replace(ASKED.spec, cpus="- - 0.1"))
    verdict = judge(held(facts(quick, slow, synchronous=True), "h3", 0.1), held_back)
    assert verdict.cause == "straggler"
    assert any("0.10 of the 0.1 cores" in line for line in verdict.evidence)
    assert "allow every host the same number of cores" in verdict.remedy[0]


def test_waiting_without_anyone_to_blame_is_the_barrier() -> None:
    workers = [worker(number, compute=3, wait=7) for number in range(3)]
    verdict = judge(facts(*workers, synchronous=True, last={"w0": 0.3, "w1": 0.3, "w2": 0.4}), ASKED)
    assert (verdict.cause, verdict.where) == ("barrier", "all workers")


def test_a_slow_exchange_with_a_full_link_is_no_straggler() -> None:
    """The worker beside the server has no link to pass: the others are not to blame for theirs."""
    near, far = worker(0, compute=1, wait=9), worker(1, compute=1, pull=9)
    verdict = judge(facts(near, far, synchronous=True, links=(link(0.9),)), ASKED)
    assert verdict.cause == "network"


def test_tasks_that_wait_for_cores_that_are_full_fight_for_them() -> None:
    workers = [worker(number, compute=10, starved=0.6) for number in range(3)]
    verdict = judge(facts(*workers, machine_cores=1), ASKED)
    assert (verdict.cause, verdict.where) == ("contention", "the machine's 1 core")
    assert "--layout 'p w'" in verdict.remedy[0]
    # With cores free they were only slow to wake.
    assert judge(facts(*workers, machine_cores=8), ASKED).cause == "compute"


def test_an_asynchronous_worker_that_makes_most_updates_is_an_imbalance() -> None:
    verdict = judge(facts(worker(0, steps=900, compute=5, push=5), worker(1, steps=100, compute=5, push=5)), ASKED)
    assert (verdict.cause, verdict.where) == ("imbalance", "w0 on h2")
    assert "90 %" in verdict.evidence[0]


def test_servers_of_unequal_load_are_an_imbalance_with_the_guilty_parameter() -> None:
    servers = (server(0, busy=0.9, holds={"0.weight": 7840}), server(1, busy=0.1, holds={"0.bias": 10}))
    verdict = judge(facts(worker(compute=1, pull=9), servers=servers), ASKED)
    assert (verdict.cause, verdict.where) == ("imbalance", "ps0 on s0")
    assert any("0.weight" in line for line in verdict.evidence)


def test_a_run_of_a_few_steps_is_all_startup() -> None:
    verdict = judge(facts(worker(steps=5, compute=0.1), seconds=0.1, startup_s=5, total_s=5.2), ASKED)
    assert (verdict.cause, verdict.confidence) == ("startup", "high")


def test_input_evaluation_and_checkpoints_are_causes_too() -> None:
    for phase, cause in (("data", "input"), ("eval", "evaluation"), ("checkpoint", "checkpoint")):
        spent: dict[str, Any] = {"compute": 2, phase: 8}
        assert judge(facts(worker(**spent)), ASKED).cause == cause


def test_two_causes_of_the_same_size_are_not_clear() -> None:
    verdict = judge(facts(worker(compute=5, data=5)), ASKED)
    assert (verdict.cause, verdict.remedy, verdict.confidence) == (NOT_CLEAR, [], "low")
    assert {"input", "compute"} == {line.split()[0] for line in verdict.evidence[1:]}


def test_nothing_that_takes_a_quarter_is_not_clear() -> None:
    shares: dict[str, Any] = dict.fromkeys(("compute", "data", "eval", "checkpoint", "other"), 2.0)
    assert judge(facts(worker(**shares)), ASKED).cause == NOT_CLEAR


def test_no_steps_are_not_clear() -> None:
    assert judge(facts(worker(steps=0)), ASKED).cause == NOT_CLEAR


def test_few_steps_make_less_sure() -> None:
    assert judge(facts(worker(steps=30, compute=10)), ASKED).confidence == "medium"
    assert judge(facts(worker(steps=10, compute=10)), ASKED).confidence == "low"
    assert judge(facts(worker(compute=10), coverage=0.8), ASKED).confidence == "medium"


_seconds = st.floats(0, 100)
_worker = st.builds(
    lambda number, steps, starved, phases: worker(number, steps, starved, **phases),
    st.integers(0, 3), st.integers(0, 10_000), st.floats(0, 1),
    st.fixed_dictionaries(dict.fromkeys(Phases.__struct_fields__, _seconds)),
)  # fmt: skip


@given(
    st.lists(_worker, min_size=1, max_size=4), st.booleans(), st.floats(0, 1.2), st.floats(0, 1),
    st.none() | st.floats(0, 1), st.integers(1, 8),
)  # fmt: skip
def test_whatever_was_measured_shares_are_shares(
    workers: list[WorkerFacts], synchronous: bool, full: float, busy: float, arithmetic: float | None, cores: int
) -> None:
    made = facts(
        *workers, synchronous=synchronous, links=(link(full),), servers=(server(busy=busy),),
        arithmetic_s=arithmetic, machine_cores=cores,
    )  # fmt: skip
    verdict = judge(made, ASKED)
    assert 0 <= verdict.share <= 1.0001
    assert all(0 < one.share <= 1.0001 for one in suspects(made)) if verdict.share else True
