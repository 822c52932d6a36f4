"""Which tests may run at the same time as others, because they measure nothing that other load would change."""

from pathlib import Path

import pytest

_TESTS = Path(__file__).parent.parent
SHARED = frozenset({
    "analyze", "api", "cli", "contracts", "control", "data", "docs", "engines", "exports", "files", "forkserver",
    "fuzz", "hosts/k8s", "hosts/slurm", "hosts/ssh/test_inventory.py", "hosts/ssh/test_ssh_matrix.py",
    "hosts/ssh/test_ssh_runs.py", "hosts/ssh/test_ssh_scripts.py", "hosts/test_arguments.py", "hosts/test_prepare.py",
    "messages", "metrics", "paramserver", "plan", "plugins", "prediction", "present", "recipes", "recording", "report",
    "spec", "store", "strategies", "task", "terminal", "test_api.py", "test_imports.py",
    "test_leftover_processes.py", "test_live_terminal.py", "test_logreg_quality.py", "test_network_exposure.py",
    "test_no_names_outside_descriptors.py", "test_ports.py", "test_resume.py", "test_sweep_runs.py", "test_units.py",
    "train", "ui", "workloads",
})  # fmt: skip
"""Folders and files, relative to that of the tests, whose tests share the machine unless they are marked `alone`."""


def needs_machine_alone(item: pytest.Item) -> bool:
    """Whether the test must run with no other test beside it. In a shared folder, only tests marked `alone` must."""
    path = item.path.relative_to(_TESTS)
    return SHARED.isdisjoint(part.as_posix() for part in (path, *path.parents))
