"""What hosts in a box need is missing, or cannot be: said in one line before anything is made."""

import os
import sys

import pytest

from hosts.namespaces import needs_root, requests
from paceline.errors import HostError
from paceline.hosts.base import HostRequest
from paceline.hosts.netns import cgroup, iproute
from paceline.hosts.netns import hosts as netns_hosts
from paceline.hosts.netns.hosts import NetnsHosts

pytestmark = needs_root


def test_check_passes_without_the_administrators_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    NetnsHosts().check(requests(3, link_bits_s=10**9, cpus=0.5))


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ([HostRequest(name="h1", cpus=0)], "--cpus 0 is no usable share"),
        ([HostRequest(name="h1", cpus=-1)], "--cpus -1"),
        ([HostRequest(name="h1", cpus=float("nan"))], "--cpus nan"),
        ([HostRequest(name="sw")], "'sw' cannot name a host"),
        ([HostRequest(name="../h1")], "cannot name a host"),
        ([HostRequest(name="h1"), HostRequest(name="h1")], "two hosts are called 'h1'"),
    ],
)
def test_check_refuses_in_one_line(wanted: list[HostRequest], why: str) -> None:
    with pytest.raises(HostError, match=why) as refused:
        NetnsHosts().check(wanted)
    assert "\n" not in str(refused.value)


def test_check_refuses_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(sys, "platform", "darwin")
        with pytest.raises(HostError, match="use --hosts local"):
            NetnsHosts().check(requests(1))


def test_check_refuses_another_user_than_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(HostError, match="needs root"):
        NetnsHosts().check(requests(1))


def test_check_refuses_a_machine_without_tc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iproute, "find", lambda name: None if name == "tc" else f"/sbin/{name}")
    with pytest.raises(HostError, match="'tc': install iproute2"):
        NetnsHosts().check(requests(1))


def test_check_says_how_to_do_without_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns_hosts, "_kernel_has", lambda _queue: False)
    with pytest.raises(HostError, match="load the module sch_netem, or choose no latency with --set latency=-"):
        NetnsHosts().check([HostRequest(name="h1", latency_s=0.001)])


def test_check_refuses_cpus_without_a_cgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "cpu_hierarchy", lambda: None)
    NetnsHosts().check(requests(1))
    with pytest.raises(HostError, match="leave --cpus out"):
        NetnsHosts().check(requests(1, cpus=0.5))
    with pytest.raises(HostError, match="fault slow needs a cpu cgroup"):
        NetnsHosts().check([HostRequest(name="h1", faults=frozenset({"slow"}))])


def test_check_refuses_latency_where_the_kernel_lacks_netem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns_hosts, "_kernel_has", lambda queue: "netem" not in queue)
    NetnsHosts().check(requests(1, link_bits_s=10**9, latency_s=0.0))
    with pytest.raises(HostError, match="sch_netem"):
        NetnsHosts().check(requests(1, latency_s=0.001))
