"""Fixtures and hooks for all tests: a fixture that makes a real run, skips, and the table of injected faults."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import paceline
from paceline.errors import HostError
from paceline.hosts.base import HostRequest
from paceline.hosts.registry import host_provider
from paceline.store.result import Result
from support import fault_table, slow_tests, ssh_table
from support.live_run import RunOne
from support.machine_share import needs_machine_alone

pytest_plugins = ["support.machines.fixtures"]

# No deadline per Hypothesis example: a busy machine must not fail a test.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


def reason_without_netns() -> str | None:
    """Why netns hosts do not work on this machine; None if they do."""
    try:
        host_provider("netns").check([HostRequest(name="h1", link_bits_s=10**9, cpus=0.5)])
    except HostError as error:
        return str(error)
    return None


@pytest.fixture
def run_one(tmp_path: Path) -> RunOne:
    """Make one run of logreg and return its result."""

    def make(**fields: Any) -> Result:
        (result,) = paceline.run("logreg", runs=str(tmp_path / "runs"), check=False, **fields)
        return result

    return make


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = reason_without_netns()
    for item in items:
        if slow_tests.is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
        if needs_machine_alone(item):
            item.add_marker(pytest.mark.alone)
        if reason and item.get_closest_marker("netns"):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print tables: of the injected faults and of how the runs reacted, and of runs over ssh."""
    for title, collected in (("faults", fault_table), ("runs over ssh", ssh_table)):
        if collected.ROWS:
            terminalreporter.section(title)
            for line in collected.table():
                terminalreporter.write_line(line)
