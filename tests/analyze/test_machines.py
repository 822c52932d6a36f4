"""Cores and memory are those of each host's own machine; a machine that hosts share is counted once.

The hosts of a run may have very different machines: here 16 and 2 cores.
"""

from pathlib import Path

import msgspec
import pytest

from analyze.made import made
from paceline.analyze.bottleneck.collect_facts import _arithmetic_s
from paceline.analyze.bottleneck.facts import Facts, HostFacts
from paceline.analyze.load import load_result
from paceline.analyze.machines import Machine, Machines, machines_of
from paceline.analyze.summary import summarize
from paceline.plan.limits import HostLimits
from paceline.present.notes import run_notes
from paceline.report.host_table import free_memory_mb, idle_share
from paceline.store.run import StoredRun
from report.stored import store_run

BY_HOST = {"h1": Machine(cores=16, memory_mb=32_000), "h2": Machine(cores=2, memory_mb=4_000)}
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
    for host, cores, others in zip(result.hosts, (16, 2), (1.0, 0.0), strict=True):
        assert idle_share(result, host, OWN) == pytest.approx(1 - (host.cpu_cores_mean + others) / cores)
        assert free_memory_mb(result, host, OWN) == pytest.approx(2_000 * cores - host.memory_mb_max)


def test_idle_share_of_a_host_is_relative_to_its_own_cpu_limit(tmp_path: Path) -> None:
    """Regression test: limits that differ between hosts (`--cpus "4 0.5"`) made the report fail."""
    paths = store_run(tmp_path)
    result = load_result(paths)
    result.settings["cpus"] = "4 0.5"
    limited = msgspec.structs.replace(OWN, cpu_limits={"h1": 4.0, "h2": 0.5})
    for host, limit in zip(result.hosts, (4.0, 0.5), strict=True):
        assert idle_share(result, host, limited) == pytest.approx(max(0.0, 1 - host.cpu_cores_mean / limit))


def test_cpu_limits_are_read_from_the_header_of_a_run(tmp_path: Path) -> None:
    stored = StoredRun(store_run(tmp_path))
    limits = {"h1": HostLimits(host="h1", cpus=4.0), "h2": HostLimits(host="h2")}
    stored.header = msgspec.structs.replace(stored.header, limits=limits)
    assert machines_of(stored).cpu_limits == {"h1": 4.0}


@pytest.mark.parametrize("one_machine", [True, False])
def test_scope_says_whose_cores_the_busiest_one_is_of(tmp_path: Path, one_machine: bool) -> None:
    stored = StoredRun(store_run(tmp_path))
    kind = msgspec.structs.replace(stored.header.host_kind, shares_one_machine=one_machine)
    stored.header = msgspec.structs.replace(stored.header, host_kind=kind)
    scope = summarize(stored).hosts[0].scope["busiest_core"]
    assert ("shared by all hosts" in scope) == one_machine


def test_arithmetic_of_a_step_takes_longer_on_a_machine_with_fewer_cores(tmp_path: Path) -> None:
    """Each worker needs its own time per step, so the mean is not that of a worker with the mean speed."""
    stored = StoredRun(store_run(tmp_path))
    for event in stored.events:
        if event["event"] == "finished":
            event |= {"operations_per_cpu_s": 1e9, "steps": 100}
    operations = stored.header.operations_per_example
    assert operations
    per_thread_s = operations * stored.header.spec.batch / 1e9
    found = _arithmetic_s(stored, {"w0": 16, "w1": 2})
    assert found == pytest.approx(per_thread_s * (1 / 16 + 1 / 2) / 2)


def test_background_load_of_separate_machines_is_that_of_the_busiest_one() -> None:
    loads = {"h1": 0.2, "h2": 1.5, "h3": 0.2}
    separate = made(other_cores_mean=1.9, other_cores_by_host=loads, one_machine=False)
    assert "background load: 1.5 cores on h2" in run_notes(separate)
    idle = made(other_cores_mean=2.0, other_cores_by_host={f"h{n}": 0.2 for n in range(10)}, one_machine=False)
    assert not [note for note in run_notes(idle) if "background" in note]
    shared = made(other_cores_mean=0.5, other_cores_by_host=dict.fromkeys(loads, 0.5), one_machine=True)
    assert "background load: 0.5 cores" in run_notes(shared)


@pytest.mark.parametrize(("host", "is_full"), [("h1", False), ("h2", True)])
def test_only_the_machine_without_free_cores_is_full(host: str, is_full: bool) -> None:
    hosts = (
        HostFacts(host="h1", tasks=("w0",), cpu_cores=1.9, cores=16),
        HostFacts(host="h2", tasks=("w1",), cpu_cores=1.0, cores=2, background_cores=0.9),
    )
    facts = Facts(synchronous=True, seconds=1.0, workers=(), hosts=hosts)
    assert facts.machine_is_saturated(facts.host(host)) == is_full
