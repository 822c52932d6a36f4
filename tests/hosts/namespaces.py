"""Hosts in a box to ask for, and who can have them."""

import os
import sys

import pytest

from paceline.hosts.base import HostRequest

needs_root = [
    pytest.mark.netns,
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are a Linux thing"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root"),
]


def requests(count: int, **wanted: float) -> list[HostRequest]:
    return [HostRequest(name=f"h{number}", **wanted) for number in range(1, count + 1)]  # type: ignore[arg-type]
