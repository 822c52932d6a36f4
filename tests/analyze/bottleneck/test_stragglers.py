"""One worker that is slower than the others, in constructed facts of synchronous runs."""

import msgspec
import pytest

from analyze.bottleneck.test_judge import CONFIGURATION, LIMITED, facts, link, server, with_cpu_limit, worker
from paceline.analyze.bottleneck.facts import HostFacts, TaskUse
from paceline.analyze.bottleneck.judge import judge


def test_a_worker_that_all_others_wait_for_is_a_straggler() -> None:
    slow, quick = worker(1, compute=9, wait=0.5, push=0.5), worker(0, compute=1, wait=8.5, push=0.5)
    verdict = judge(facts(quick, slow, synchronous=True, last_at_barrier={"w0": 0.0, "w1": 1.0}), CONFIGURATION)
    assert (verdict.cause, verdict.where) == ("straggler", "w1 on h3")
    assert verdict.share == pytest.approx(0.8)
    assert "--strategy ps-async" in " ".join(verdict.remedy)


def test_a_cpu_limit_that_is_not_the_runs_own_is_known_from_throttled_periods() -> None:
    slow, quick = worker(1, compute=9, wait=1), worker(0, compute=1, wait=9)
    base = facts(quick, slow, synchronous=True)
    hosts = tuple(msgspec.structs.replace(host, throttled=0.9 if host.host == "h3" else None) for host in base.hosts)
    verdict = judge(msgspec.structs.replace(base, hosts=hosts), CONFIGURATION)
    assert verdict.cause == "straggler"
    assert "a CPU limit stopped the tasks of h3 in 90 % of its periods" in verdict.evidence
    assert any("limit of the host's CPU time" in remedy for remedy in verdict.remedy)


def test_the_cpu_limit_of_a_straggler_is_in_evidence_and_remedy() -> None:
    slow, quick = worker(1, compute=9, wait=1), worker(0, compute=1, wait=9)
    verdict = judge(with_cpu_limit(facts(quick, slow, synchronous=True), "h3", 0.1), LIMITED)
    assert verdict.cause == "straggler"
    assert any("0.10 of the 0.1 cores" in line for line in verdict.evidence)
    assert "allow every host the same number of cores" in verdict.remedy[0]


def test_a_slow_exchange_over_a_saturated_link_is_not_a_straggler() -> None:
    """Only the worker on the host of the server needs no link; the others are slower because of the link."""
    near, far = worker(0, compute=1, wait=9), worker(1, compute=1, pull=9)
    verdict = judge(facts(near, far, synchronous=True, links=(link(0.9),)), CONFIGURATION)
    assert verdict.cause == "network"


def test_straggler_with_fewer_threads_is_explained_by_its_machine() -> None:
    large = [
        msgspec.structs.replace(worker(number, compute=1, wait=7), threads=16, use=TaskUse(cpu_cores=14.0))
        for number in range(2)
    ]
    small = msgspec.structs.replace(worker(2, compute=8), threads=2, use=TaskUse(cpu_cores=1.5))
    found = judge(facts(*large, small, synchronous=True, machine_cores=0, last_at_barrier={"w2": 1.0}), CONFIGURATION)
    assert (found.cause, found.where) == ("straggler", "w2 on h4")
    assert "w2 computes with 2 threads, every other worker with 16 or more" in found.evidence
    assert found.remedy[0] == "use hosts with the same number of cores"


def test_an_exchange_that_the_cpu_limit_of_one_worker_slows_down_is_lost_because_of_it() -> None:
    """In a collective operation all workers need as long as the slowest one."""
    slow = worker(1, compute=5, push=5, waiting=0.8)
    quick = worker(0, compute=1, push=5, wait=4)
    run_facts = with_cpu_limit(facts(quick, slow, synchronous=True, last_at_barrier={"w1": 1.0}), "h3", 0.2)
    verdict = judge(run_facts, LIMITED)
    assert (verdict.cause, verdict.where) == ("straggler", "w1 on h3")
    # Without the limit, a step would take 1 s of compute and 1 s of exchange instead of 10 s, on both workers.
    assert verdict.share == pytest.approx(0.8)
    with_server = msgspec.structs.replace(run_facts, servers=(server(busy=0.1),))
    with_server = msgspec.structs.replace(
        with_server, hosts=(*run_facts.hosts, HostFacts(host="s0", tasks=("ps0",), cpu_cores=0.1))
    )
    assert judge(with_server, LIMITED).share < 0.5
