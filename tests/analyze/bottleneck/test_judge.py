"""The bottleneck that is found for constructed facts: one example per cause, and cases that are not clear."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import pipeline
from paceline.analyze.bottleneck.facts import Facts, HostFacts, LinkFacts, Phases, ServerFacts, TaskUse, WorkerFacts
from paceline.analyze.bottleneck.judge import NOT_CLEAR, judge
from paceline.analyze.bottleneck.remedies import Configuration, configuration_of, remedies
from paceline.analyze.bottleneck.suspect import Suspect
from paceline.analyze.bottleneck.suspects import suspects
from paceline.data.dataset import PreparedData
from paceline.present.bottleneck import account_text, bottleneck_summary
from paceline.present.numbers import percent
from paceline.spec.load import experiment
from paceline.store.header import ResumePoint
from paceline.store.verdict import Verdict


def configuration(**fields: Any) -> Configuration:
    """The configuration of a run with these options."""
    (plan,) = pipeline.plan(experiment({"workload": "logreg", "layout": "p w w", **fields}))
    data = PreparedData(paths=(), source="none", synthetic=True)
    return configuration_of(pipeline.header_of(plan, data, ResumePoint(), clock_zero_ns=0))


CONFIGURATION = configuration(strategy="ps-sync")
LIMITED = msgspec.structs.replace(CONFIGURATION, spec=msgspec.structs.replace(CONFIGURATION.spec, cpus="- - 0.1"))


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
    return LinkFacts(
        host=host, outbound_mb_s=10 * utilization, inbound_mb_s=0.0, outbound_capacity_mb_s=10.0,
        inbound_capacity_mb_s=10.0, known_from="by --link",
    )  # fmt: skip


def test_mostly_computing_is_compute() -> None:
    verdict = judge(facts(worker(compute=9, push=1)), CONFIGURATION)
    assert (verdict.cause, verdict.where, verdict.confidence) == ("compute", "w0 on h2", "high")
    assert verdict.share == pytest.approx(0.9)
    assert verdict.remedy[0].endswith("--strategy ps-sync --layout 'p w w w' --batch 100 --hosts local --stop epochs=1")


def test_time_throttled_by_a_cpu_limit_counts_as_compute_of_that_worker() -> None:
    free, slow = worker(0, compute=2, push=0.5, wait=7.5), worker(1, compute=0.3, pull=9.7, waiting=0.9)
    verdict = judge(with_cpu_limit(facts(free, slow), "h3", 0.1), CONFIGURATION)
    assert (verdict.cause, verdict.where) == ("compute", "w1 on h3")
    assert verdict.share == pytest.approx(0.55, abs=0.01)
    assert verdict.evidence[-1] == "of the compute time, 79 % is other work that the CPU limit slowed down"


def test_compute_time_far_above_the_arithmetic_is_overhead() -> None:
    verdict = judge(facts(worker(compute=9, data=1), arithmetic_s=1e-6), CONFIGURATION)
    assert verdict.cause == "overhead"
    assert "--batch 400" in verdict.remedy[0]


def test_one_thread_is_a_remedy_for_contention_and_overhead_of_workers_with_several() -> None:
    contention = facts(*(worker(number, compute=10, waiting=0.6) for number in range(3)), machine_cores=1)
    overhead = facts(worker(compute=9, data=1), arithmetic_s=1e-6)
    for cause, one_thread in (("contention", contention), ("overhead", overhead)):
        workers = tuple(msgspec.structs.replace(worker, threads=2) for worker in one_thread.workers)
        verdict = judge(msgspec.structs.replace(one_thread, workers=workers), CONFIGURATION)
        assert verdict.cause == cause
        assert any(remedy.endswith("--set threads=1") for remedy in verdict.remedy)
        assert not any("threads" in remedy for remedy in judge(one_thread, CONFIGURATION).remedy)


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


def test_waiting_among_equal_workers_is_the_barrier() -> None:
    workers = [worker(number, compute=3, wait=7) for number in range(3)]
    verdict = judge(facts(*workers, synchronous=True, last_at_barrier={"w0": 0.3, "w1": 0.3, "w2": 0.4}), CONFIGURATION)
    assert (verdict.cause, verdict.where) == ("barrier", "all workers")


def test_waiting_for_cores_is_contention_only_if_the_cores_are_saturated() -> None:
    workers = [worker(number, compute=10, waiting=0.6) for number in range(3)]
    verdict = judge(facts(*workers, machine_cores=1), CONFIGURATION)
    assert (verdict.cause, verdict.where) == ("contention", "the machine's 1 core")
    assert "--layout 'p w'" in verdict.remedy[0]
    # As many workers as there are cores, not one less than now.
    twelve = [worker(number, compute=10, waiting=0.8) for number in range(12)]
    wide = msgspec.structs.replace(CONFIGURATION, layout="p" + 12 * " w")
    verdict = judge(facts(*twelve, machine_cores=2), wide)
    assert verdict.remedy[0].startswith("use as many workers as the cores can carry: 2 workers; command: ")
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
    verdict = judge(facts(worker(steps=5, compute=0.1), seconds=0.1, startup_s=4.9, total_s=15.0), CONFIGURATION)
    assert (verdict.cause, verdict.confidence) == ("startup", "high")
    # Time after the training, such as the final evaluation, is neither startup nor training.
    assert [(part.cause, part.share) for part in verdict.account] == [("startup", 0.98), ("compute", 0.02)]
    assert "98 % of the time of startup and training" in bottleneck_summary(verdict)


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


def test_few_steps_a_short_training_or_low_coverage_lower_the_confidence() -> None:
    assert judge(facts(worker(compute=10), seconds=0.5), CONFIGURATION).confidence == "low"
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
    st.lists(_worker, min_size=1, max_size=4, unique_by=lambda one: one.task), st.booleans(), st.floats(0, 1.2),
    st.floats(0, 1), st.none() | st.floats(0, 1), st.integers(1, 8), st.none() | st.floats(0.1, 4), st.floats(0, 100),
)  # fmt: skip
def test_the_shares_of_any_run_add_up_to_1_and_nothing_contradicts_them(
    workers: list[WorkerFacts],
    synchronous: bool,
    utilization: float,
    busy: float,
    arithmetic: float | None,
    cores: int,
    cpus: float | None,
    startup_s: float,
) -> None:
    run_facts = facts(
        *workers, synchronous=synchronous, links=(link(utilization),), servers=(server(busy=busy),),
        arithmetic_s=arithmetic, machine_cores=cores, startup_s=startup_s,
    )  # fmt: skip
    if cpus is not None:
        run_facts = with_cpu_limit(run_facts, workers[0].host, cpus)
    verdict = judge(run_facts, LIMITED)
    if verdict.account:
        assert_consistent(verdict)
        assert sum(suspect.share for suspect in suspects(run_facts)) == pytest.approx(1)


def test_a_link_that_is_full_in_turn_outward_and_inward_is_full() -> None:
    half = LinkFacts(
        host="h1", outbound_mb_s=5.0, inbound_mb_s=4.5, outbound_capacity_mb_s=10.0, inbound_capacity_mb_s=10.0,
        known_from="by --link", fuller_direction=0.95,
    )  # fmt: skip
    verdict = judge(facts(worker(compute=1, pull=5, push=4), links=(half,)), CONFIGURATION)
    assert (verdict.cause, verdict.where) == ("network", "h1, outbound and inbound link")
    assert verdict.share == pytest.approx(0.9)
    assert "95 % full, outbound and inbound in turn" in verdict.evidence[0]
    # Bursts of one direction alone do not count: then the mean of the fuller direction is what the evidence states.
    bursts = msgspec.structs.replace(half, fuller_direction=0.55)
    verdict = judge(facts(worker(compute=1, pull=5, push=4), links=(bursts,)), CONFIGURATION)
    assert (verdict.where, verdict.share) == ("h1, outbound link", 0.5)
    assert "50 % of its capacity" in verdict.evidence[0]


def test_time_of_calls_that_were_never_traced_is_not_attributed_to_compute_or_overhead() -> None:
    verdict = judge(facts(worker(fused=9, data=1), arithmetic_s=1e-6), CONFIGURATION)
    assert (verdict.cause, verdict.share) == (NOT_CLEAR, 0.0)
    assert {part.cause: part.share for part in verdict.account} == {"unknown": 0.9, "input": 0.1}
    assert "no step was traced" in verdict.evidence[1]
    assert "--set trace_every=2" in verdict.remedy[0]


def test_a_full_link_explains_calls_that_were_never_traced() -> None:
    verdict = judge(facts(worker(fused=10), links=(link(0.9),)), CONFIGURATION)
    assert (verdict.cause, verdict.share) == ("network", 0.9)


def assert_consistent(verdict: Verdict) -> None:
    """The account adds up to 100 %, and bottleneck, second cause and evidence are parts of it."""
    assert sum(part.share for part in verdict.account) == pytest.approx(1, abs=0.002)
    shares = [part.share for part in verdict.account]
    assert shares == sorted(shares, reverse=True)
    if verdict.cause == NOT_CLEAR:
        assert verdict.share == 0
    else:
        assert (verdict.cause, verdict.where, verdict.share) == (
            verdict.account[0].cause, verdict.account[0].where, verdict.account[0].share,
        )  # fmt: skip
    assert verdict.runner_up == (verdict.account[1] if len(shares) > 1 else None)
    points = [int(text) for text in re.findall(r"(\d+) %", account_text(verdict))]
    assert sum(points) == 100
    assert not verdict.share or f"{points[0]} %" == percent(verdict.share)
    # A share of the workers' time in the evidence would have to be one of the account.
    assert not any(re.search(r"% of the workers' time(?! was recorded)", line) for line in verdict.evidence)


def test_commands_of_remedies_keep_the_declaration_that_the_network_is_trusted() -> None:
    trusted = configuration(strategy="ps-sync", trusted_network=True)
    assert "--trusted-network --stop" in trusted.command(batch=400)
    assert "--trusted-network" not in CONFIGURATION.command(batch=400)


def test_strategy_without_authentication_is_not_suggested_on_an_untrusted_network() -> None:
    (plan,) = pipeline.plan(experiment({"workload": "logreg", "engine": "tensorflow"}))
    data = PreparedData(paths=(), source="none", synthetic=True)

    def suggested(trusted: bool) -> set[str]:
        network = msgspec.structs.replace(plan, trusted_network=trusted)
        header = pipeline.header_of(network, data, ResumePoint(), clock_zero_ns=0)
        return {strategy.name for strategy in header.alternatives}

    assert suggested(trusted=True)
    assert not suggested(trusted=False)


@pytest.mark.parametrize(
    ("fields", "suggested"),
    [
        (
            {"strategy": "allreduce", "layout": "w w"},
            ["--strategy diloco --layout 'w w'", "--strategy allreduce --layout 'w w' .* --set compress=int8$"],
        ),
        (
            {"strategy": "ps-sync", "layout": "pw w", "compress": "int8"},
            ["--strategy diloco --layout 'w w' .* --set compress=int8$"],
        ),
        (
            {"strategy": "diloco", "layout": "w w", "sync_every": 50},
            ["--set sync_every=200$", "--set sync_every=50 --set compress=int8$"],
        ),
        ({"strategy": "ps-async", "layout": "pw w", "workload": "sparse-logreg"}, []),
        ({"strategy": "allreduce", "layout": "w w", "engine": "tensorflow"}, []),
    ],
)
def test_workers_that_wait_for_a_link_should_exchange_less(fields: dict[str, Any], suggested: list[str]) -> None:
    network = Suspect(cause="network", where="h1, outbound link", share=0.9, evidence=())
    lines = remedies(network, configuration(**fields))
    found = [line for line in lines if re.search("train alone|less often|compress what", line)]
    assert len(found) == len(suggested)
    for line, pattern in zip(found, suggested, strict=True):
        assert re.search(pattern, line)


def contention(base: Facts) -> Suspect:
    (found,) = [suspect for suspect in suspects(base) if suspect.cause == "contention"]
    return found


def on_separate_machines(*workers: WorkerFacts, cores: Sequence[int], background: Sequence[float]) -> Facts:
    """Facts of workers whose hosts are machines of their own with these numbers of cores."""
    hosts = tuple(
        HostFacts(
            host=task.host, tasks=(task.task,), cpu_cores=task.use.cpu_cores, cores=count, background_cores=others
        )
        for task, count, others in zip(workers, cores, background, strict=True)
    )
    return facts(*workers, hosts=hosts, machine_cores=0, background_cores=sum(background))


def test_contention_is_on_the_machine_whose_cores_are_used_up() -> None:
    """Programs on a machine with 2 cores disturb the worker there, however much the 16 cores of the other one do."""
    large = msgspec.structs.replace(worker(0, compute=10), use=TaskUse(cpu_cores=8.0, run_wait=6.0))
    small = msgspec.structs.replace(worker(1, compute=10), use=TaskUse(cpu_cores=0.7, run_wait=0.6))
    found = contention(on_separate_machines(large, small, cores=(16, 2), background=(0.0, 1.2)))
    assert found.where == "h3 (2 cores)"
    assert found.evidence[1] == "1 task used 0.70 cores; background load: 1.20 cores"
    separate = msgspec.structs.replace(CONFIGURATION, one_machine=False)
    assert remedies(found, separate) == ["stop the other programs on h3, or run again when it is idle"]


def test_fewer_workers_are_suggested_for_the_host_with_contention() -> None:
    crowd = tuple(
        msgspec.structs.replace(worker(number, compute=10), host="h2", use=TaskUse(cpu_cores=0.7, run_wait=0.6))
        for number in range(3)
    )
    alone = msgspec.structs.replace(worker(3, compute=10), host="h3", use=TaskUse(cpu_cores=1.0))
    hosts = (
        HostFacts(host="h2", tasks=("w0", "w1", "w2"), cpu_cores=2.0, cores=2),
        HostFacts(host="h3", tasks=("w3",), cpu_cores=1.0, cores=16),
    )
    found = contention(facts(*crowd, alone, hosts=hosts, machine_cores=0))
    assert found.where == "h2 (2 cores)"
    assert "--layout 'p ww w'" in remedies(found, configuration(strategy="ps-sync", layout="p www w"))[0]


def test_evidence_says_how_many_workers_it_does_not_list() -> None:
    workers = [worker(number, compute=1.0, waiting=0.8) for number in range(12)]
    found = suspects(facts(*workers, machine_cores=1))
    (evidence,) = [suspect.evidence[0] for suspect in found if suspect.cause == "contention"]
    assert evidence.endswith("w5 0.80 and 6 more")
