"""What a person sees while a run goes on: a picture on a terminal, plain lines elsewhere."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

RUN = [
    *(sys.executable, "-m", "paceline", "run", "logreg", "--strategy", "ps-async", "--layout", "pw w"),
    *("--stop", "seconds=6", "--eval-every", "500", "--runs"),
]


def on_a_terminal(command: list[str]) -> str:
    """All that a terminal of 140 columns was sent."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140", "LINES": "50"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    sent = b""
    try:
        while part := os.read(ours, 65_536):
            sent += part
    except OSError:  # How a terminal says that everyone has let go of it.
        pass
    finally:
        os.close(ours)
    assert process.wait(60) == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent.decode())


@pytest.mark.timeout(120)
def test_a_terminal_shows_workers_hosts_phases_and_progress(tmp_path: Path) -> None:
    seen = on_a_terminal([*RUN, str(tmp_path / "runs")])
    assert re.search(r"worker +host +steps +steps/s +loss +where its time goes", seen)
    assert re.search(r"w1 +h2 +[\d,]+ +[\d,.]+ +\d\.\d{4} +█+ \w+ \d+%", seen)
    assert re.search(r"host +cores +memory MB +external MB/s +loopback MB/s", seen)
    assert re.search(r"h2 +0?\.?\d[\d.]* +\d+ ", seen)
    assert re.search(r"update [\d,]+ · [\d,.]+/s · \d\.\d s · test loss 0\.\d{4}, accuracy \d\d\.\d\d %", seen)
    assert "━" in seen


@pytest.mark.timeout(120)
def test_elsewhere_there_is_a_plain_line_every_few_seconds(tmp_path: Path) -> None:
    done = subprocess.run([*RUN, str(tmp_path / "runs")], capture_output=True, text=True, timeout=100, check=True)
    assert "\x1b" not in done.stderr + done.stdout
    lines = [
        line for line in done.stderr.splitlines() if re.search(r"update [\d,]+ · .* w0 [\d,.]+/s w1 [\d,.]+/s", line)
    ]
    assert len(lines) >= 1
