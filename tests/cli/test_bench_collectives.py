"""paceline bench-collectives with real tasks on real hosts, and values that it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "paceline", "bench-collectives"]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.netns
@pytest.mark.alone
def test_large_vectors_use_the_rate_of_the_link(tmp_path: Path) -> None:
    """The independent value is the rate to which the kernel limits the links: 40 Mbit/s are 5 MB/s with all headers."""
    done = bench(
        "--hosts", "netns", "--link", "40mbit", "--max-size", "256kB", "--seconds", "0.05", "--json",
        "--pictures", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(row["operation"], row["carrier"]) for row in rows} == {
        ("all-reduce", "gloo"), ("broadcast", "gloo"), ("pull", "parameter server"), ("push+pull", "parameter server"),
    }  # fmt: skip
    assert {row["bytes"] for row in rows} == {1_000, 4_000, 16_000, 64_000, 256_000}
    largest = {row["operation"]: row["link_mb_s"] for row in rows if row["bytes"] == 256_000}
    for operation in ("all-reduce", "broadcast", "pull"):
        assert 3.5 < largest[operation] < 5.5
    # A single message is pushed before its reply comes, so each direction is used half of the time.
    assert 1.7 < largest["push+pull"] < 3
    assert {path.suffix for path in tmp_path.iterdir()} == {".png", ".svg"}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--workers", "1"), "workers '1': must be numbers from 2 to 8, e.g. 2,4"),
        (("--workers", "2,x"), "workers 'x': must be numbers from 2 to 8, e.g. 2,4"),
        (("--max-size", "2GB"), "max-size '2GB': must be a size from 1kB to 1GB, e.g. 16MB"),
        (("--max-size", "large"), "max-size 'large': must be a size from 1kB to 1GB, e.g. 16MB"),
        (("--hosts", "nets"), "unknown kind of hosts 'nets': did you mean netns?"),
        (("--link", "1gbit"), "hosts local"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_in_one_line(arguments: tuple[str, ...], line: str) -> None:
    done = bench(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (shown,) = done.stderr.splitlines()
    assert line in shown
