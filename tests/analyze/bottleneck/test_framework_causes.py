"""Bottlenecks inside of a framework: its scheduler, its driver, and garbage collection."""

import pytest

from paceline import pipeline
from paceline.analyze.bottleneck.facts import Facts, HostFacts, Phases, ServerFacts, TaskUse, WorkerFacts
from paceline.analyze.bottleneck.judge import judge
from paceline.analyze.bottleneck.remedies import Configuration, configuration_of
from paceline.data.dataset import PreparedData
from paceline.engines.registry import engines
from paceline.spec.load import experiment
from paceline.store.header import ResumePoint
from paceline.store.verdict import Verdict

pytestmark = pytest.mark.skipif(not engines()["spark"].installed, reason="pyspark is not installed")


def configuration(**fields: str) -> Configuration:
    run = {"workload": "logreg", "engine": "torch", "strategy": "ps-sync", "layout": "p w w", **fields}
    (plan,) = pipeline.plan(experiment(run))
    data = PreparedData(paths=(), source="none", synthetic=True)
    return configuration_of(pipeline.header_of(plan, data, ResumePoint(), clock_zero_ns=0))


def judged(
    scheduler_s: float = 0.0, gc_s: float = 0.0, driver_busy: float = 0.0, run_wait: float = 0.0, **phases: float
) -> Verdict:
    workers = tuple(
        WorkerFacts(
            task=f"w{number}",
            host=f"h{number + 2}",
            steps=1000,
            phases=Phases(**phases),
            use=TaskUse(cpu_cores=0.5, run_wait=run_wait),
            scheduler_s=scheduler_s,
            gc_s=gc_s,
        )
        for number in range(2)
    )
    driver = ServerFacts(task="ps0", host="h1", busy=driver_busy, use=TaskUse(cpu_cores=driver_busy))
    hosts = tuple(HostFacts(host=f"h{number}", tasks=(f"t{number}",), cpu_cores=0.5) for number in (1, 2, 3))
    facts = Facts(
        synchronous=True,
        server_is="driver",
        one_server=True,
        seconds=10.0,
        startup_s=5.0,
        total_s=15.0,
        workers=workers,
        servers=(driver,),
        hosts=hosts,
        machine_cores=1 if run_wait else 8,
    )
    return judge(facts, configuration())


def test_tiny_batches_make_the_scheduler_the_bottleneck() -> None:
    verdict = judged(scheduler_s=7.0, driver_busy=0.1, pull=1.0, compute=0.5, wait=8.5)
    assert (verdict.cause, verdict.where) == ("scheduler", "ps0 on h1")
    assert verdict.share == pytest.approx(0.7, abs=0.01)
    assert "7 ms of the 10 ms per step" in verdict.evidence[0]
    assert any("larger batch" in remedy for remedy in verdict.remedy)


def test_time_in_which_only_the_driver_works_makes_it_the_bottleneck() -> None:
    verdict = judged(scheduler_s=1.0, driver_busy=0.7, pull=1.0, compute=1.0, wait=8.0)
    assert (verdict.cause, verdict.where) == ("driver", "ps0 on h1")
    # 70 % alone, and 10 % passing the parameters on.
    assert verdict.share == pytest.approx(0.8, abs=0.01)


def test_a_large_model_that_is_passed_through_the_driver_makes_it_the_bottleneck() -> None:
    """No link is full, and the driver works alone for a third of the time: the rest is passing the data on."""
    verdict = judged(scheduler_s=0.5, driver_busy=0.35, pull=3.0, push=2.0, compute=0.8, wait=4.2)
    assert (verdict.cause, verdict.where) == ("driver", "ps0 on h1")
    assert verdict.share > 0.8
    assert any("passing parameters and gradients" in line for line in verdict.evidence)


def test_garbage_collection_is_a_cause_of_its_own() -> None:
    verdict = judged(gc_s=6.0, pull=1.0, compute=1.0, wait=2.0, other=6.0)
    assert verdict.cause == "gc"
    assert verdict.share == pytest.approx(0.6, abs=0.01)
    assert any("executor_memory" in remedy for remedy in verdict.remedy)


@pytest.mark.parametrize(("scheduler_s", "gc_s"), [(0.0, 0.0), (3.0, 1.0), (50.0, 50.0)])
def test_shares_add_up_to_one(scheduler_s: float, gc_s: float) -> None:
    verdict = judged(scheduler_s, gc_s, 0.3, pull=1.0, compute=2.0, wait=5.0, other=2.0)
    assert sum(part.share for part in verdict.account) == pytest.approx(1.0, abs=0.001)
    waiting = judged(scheduler_s, gc_s, 0.3, run_wait=2.0, pull=1.0, compute=2.0, wait=5.0, other=2.0)
    assert sum(part.share for part in waiting.account) == pytest.approx(1.0, abs=0.001)
