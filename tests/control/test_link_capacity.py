"""What links carry is measured between the hosts themselves, once for a layout."""

from pathlib import Path

import pytest
from bench.cpu_steal import StealMeter

from paceline.control import link_capacity
from paceline.control.link_capacity import Capacity, capacities
from paceline.hosts.base import Host, HostRequest
from paceline.hosts.netns.hosts import NetnsHosts
from paceline.pipeline import catalog
from paceline.plan.place import RunPlan, place
from paceline.spec.load import experiment
from paceline.spec.sweep import expand


def plan(**fields: object) -> RunPlan:
    (spec,) = expand(experiment({"workload": "logreg", "strategy": "allreduce", "hosts": "netns", **fields}))
    return place(spec, catalog())


_TRIES = 5
"""Whose cores are taken away cannot fill a link."""


@pytest.mark.netns
def test_a_limited_link_is_found_out_and_the_others_are_faster(tmp_path: Path) -> None:
    """100 Mbit/s are 12.5 MB/s, less the headers; a link between namespaces is as fast as memory."""
    wanted = [HostRequest(name="h1"), HostRequest(name="h2", link_bits_s=10**8), HostRequest(name="h3")]
    with NetnsHosts().open("test-links", wanted) as hosts:
        for _ in range(_TRIES):
            with StealMeter() as steal:
                found = link_capacity.measure(hosts, tmp_path / "scratch")
            if not steal.is_too_high:
                break
        else:
            pytest.skip(f"the machine below took cores away each of {_TRIES} times")
    assert set(found) == {"h1", "h2", "h3"}
    for slow in (found["h2"].tx_mb_s, found["h2"].rx_mb_s):
        assert slow == pytest.approx(12.0, rel=0.1)
    # What one sends is what the next takes.
    assert found["h3"].rx_mb_s == found["h2"].tx_mb_s
    assert found["h1"].rx_mb_s == found["h3"].tx_mb_s
    assert found["h1"].rx_mb_s > 5 * found["h2"].tx_mb_s


def test_it_is_measured_once_for_a_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def measure(hosts: list[Host], _scratch: Path) -> dict[str, Capacity]:
        measured.append([host.name for host in hosts])
        return {host.name: Capacity(tx_mb_s=1.0, rx_mb_s=2.0, measured_at=now[0]) for host in hosts}

    now = [1e9]
    monkeypatch.setattr(link_capacity, "measure", measure)
    monkeypatch.setattr("time.time", lambda: now[0])
    two, three = _hosts(2), _hosts(3)
    for _ in range(2):
        assert capacities(plan(layout="w w"), two, tmp_path, tmp_path)["h2"].rx_mb_s == 2.0
    capacities(plan(layout="w w w"), three, tmp_path, tmp_path)
    assert measured == [["h1", "h2"], ["h1", "h2", "h3"]]
    now[0] += 8 * 24 * 3600  # Links change, and so may what is remembered of them.
    capacities(plan(layout="w w"), two, tmp_path, tmp_path)
    assert len(measured) == 3


def test_given_rates_need_no_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_capacity, "measure", lambda *_: pytest.fail("measured"))
    assert capacities(plan(layout="w w", link="1gbit"), _hosts(2), tmp_path, tmp_path) == {}
    assert capacities(plan(layout="w", strategy="single"), _hosts(1), tmp_path, tmp_path) == {}


def test_a_run_goes_on_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> dict[str, Capacity]:
        raise RuntimeError("the agent of h2 is gone")

    monkeypatch.setattr(link_capacity, "measure", fails)
    (tmp_path / ".links.json").write_bytes(b"torn {")
    assert capacities(plan(layout="w w"), _hosts(2), tmp_path, tmp_path) == {}


def _hosts(count: int) -> list[Host]:
    from paceline.hosts.local.hosts import LocalHost

    return [LocalHost(f"h{number}") for number in range(1, count + 1)]
