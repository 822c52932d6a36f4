"""Real runs for tests: the same pipeline as the command line's, into a directory of the test's own."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import fault_table
import paceline
import whole_suite
from live import RunOne
from paceline.errors import HostError
from paceline.hosts.base import HostRequest
from paceline.hosts.registry import HOSTS
from paceline.store.result import Result

# A busy machine is no failure. How slow an example may be is left to the tests that are about it.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def why_no_netns() -> str | None:
    try:
        HOSTS["netns"].check([HostRequest(name="h1", link_bits_s=10**9, cpus=0.5)])
    except HostError as error:
        return str(error)
    return None


@pytest.fixture
def run_one(tmp_path: Path) -> RunOne:
    """Make one run of logreg and return its result."""

    def make(**fields: Any) -> Result:
        (result,) = paceline.run("logreg", runs=str(tmp_path / "runs"), **fields)
        return result

    return make


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_no_netns()
    for item in items:
        if whole_suite.is_one(item.nodeid):
            item.add_marker(pytest.mark.slow)
        if reason and item.get_closest_marker("netns"):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The faults that were caused, and what they came to."""
    if fault_table.ROWS:
        terminalreporter.section("faults")
        for line in fault_table.table():
            terminalreporter.write_line(line)
