"""Which tests may run at the same time as others, because they measure nothing that other load would change."""

from pathlib import Path

import pytest

_TESTS = Path(__file__).parent.parent
SHARED_FOLDERS = frozenset({
    "analyze", "api", "cli", "contracts", "data", "docs", "engines", "exports", "files", "fuzz", "messages",
    "metrics", "paramserver", "plan", "plugins", "prediction", "present", "recipes", "recording", "report", "spec",
    "store", "strategies", "task", "terminal", "train", "ui", "workloads",
})  # fmt: skip


def needs_machine_alone(item: pytest.Item) -> bool:
    """Whether the test must run with no other test beside it. In a shared folder, only tests marked `alone` must."""
    folder = item.path.relative_to(_TESTS).parts[0]
    return folder not in SHARED_FOLDERS
