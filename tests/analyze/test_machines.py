"""Cores and memory are those of each host's own machine; a machine that hosts share is counted once."""

from pathlib import Path

import pytest

from paceline.analyze.bottleneck.facts import Facts, HostFacts
from paceline.analyze.load import load_result
from paceline.analyze.machines import Machine, Machines, machines_of
from paceline.report.host_table import free_memory_mb, idle_share
from paceline.store.run import StoredRun
from report.stored import store_run

BY_HOST = {"h1": Machine(cores=8, memory_mb=16_000), "h2": Machine(cores=2, memory_mb=4_000)}
OWN = Machines(by_host=BY_HOST, shared=False)


def test_a_shared_machine_is_counted_once() -> None:
    both = dict.fromkeys(("h1", "h2"), Machine(cores=4, memory_mb=8_000))
    assert Machines(by_host=both, shared=True).total_cores == 4
    assert Machines(by_host=both, shared=False).total_cores == 8
    assert OWN.total({"h1": 1.5, "h2": 0.5}) == 2.0
    assert OWN.cores("h2") == 2
    assert OWN.cores("h3") == 0


def test_machines_are_read_from_the_events_of_a_run(tmp_path: Path) -> None:
    found = machines_of(StoredRun(store_run(tmp_path)))
    assert found == Machines(by_host=dict.fromkeys(("h1", "h2"), Machine(cores=4, memory_mb=8_000)), shared=True)


def test_idle_cores_and_free_memory_are_those_of_the_host_s_own_machine(tmp_path: Path) -> None:
    result = load_result(store_run(tmp_path))
    result.settings.pop("cpus", None)
    result.other_cores_by_host = {"h1": 1.0, "h2": 0.0}
    for host, cores, others in zip(result.hosts, (8, 2), (1.0, 0.0), strict=True):
        assert idle_share(result, host, OWN) == pytest.approx(1 - (host.cpu_cores_mean + others) / cores)
        assert free_memory_mb(result, host, OWN) == pytest.approx(2_000 * cores - host.memory_mb_max)


@pytest.mark.parametrize(("host", "is_full"), [("h1", False), ("h2", True)])
def test_only_the_machine_without_free_cores_is_full(host: str, is_full: bool) -> None:
    hosts = (
        HostFacts(host="h1", tasks=("w0",), cpu_cores=1.9, cores=8),
        HostFacts(host="h2", tasks=("w1",), cpu_cores=1.0, cores=2, background_cores=0.9),
    )
    facts = Facts(synchronous=True, seconds=1.0, workers=(), hosts=hosts)
    assert facts.machine_is_saturated(facts.host(host)) == is_full
