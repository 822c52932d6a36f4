"""Real runs for tests: the same pipeline as the command line's, into a directory of the test's own."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.store.result import Result

RunOne = Callable[..., Result]

needs_netns = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="network namespaces need Linux and root"
)


@pytest.fixture
def run_one(tmp_path: Path) -> RunOne:
    """Make one run of logreg and return its result."""

    def make(**fields: Any) -> Result:
        (result,) = paceline.run("logreg", runs=str(tmp_path / "runs"), **fields)
        return result

    return make


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("netns"):
            item.add_marker(needs_netns)
