"""Every entry of the list of slow tests names a test that exists."""

from pathlib import Path

from support.slow_tests import SLOW_TESTS

TESTS = Path(__file__).parent


def test_every_slow_test_exists() -> None:
    missing = []
    for entry in SLOW_TESTS:
        file, function = entry.partition("[")[0].split("::")
        if not any(f"def {function}(" in path.read_text("utf-8") for path in TESTS.rglob(file)):
            missing.append(entry)
    assert not missing, "renamed or removed: update tests/support/slow_tests.py"
