"""What a run in progress shows: a live view on a terminal, plain lines elsewhere."""

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
    """The output of a command on a terminal with 140 columns, without escape sequences."""
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140", "LINES": "50"}
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    output = b""
    try:
        while part := os.read(controller, 65_536):
            output += part
    except OSError:  # Linux reports the end of a terminal's output as an error.
        pass
    finally:
        os.close(controller)
    assert process.wait(60) == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode())


@pytest.mark.timeout(120)
def test_a_terminal_shows_workers_hosts_phases_and_progress(tmp_path: Path) -> None:
    output = on_a_terminal([*RUN, str(tmp_path / "runs")])
    assert re.search(r"worker +host +steps +steps/s +loss +time by phase", output)
    assert re.search(r"w1 +h2 +[\d,]+ +[\d,.]+ +\d\.\d{4} +█+ \w+ \d+ %", output)
    assert re.search(r"host +cores used +memory \(MB\) +network \(MB/s\) +loopback \(MB/s\)", output)
    assert re.search(r"h2 +0?\.?\d[\d.]* +\d+ ", output)
    assert re.search(r"update [\d,]+ · [\d,.]+/s · \d\.\d s · test loss 0\.\d{4}, accuracy \d\d\.\d\d %", output)
    assert "━" in output


@pytest.mark.timeout(120)
def test_without_a_terminal_there_is_a_plain_line_every_few_seconds(tmp_path: Path) -> None:
    done = subprocess.run([*RUN, str(tmp_path / "runs")], capture_output=True, text=True, timeout=100, check=True)
    assert "\x1b" not in done.stderr + done.stdout
    lines = [
        line for line in done.stderr.splitlines() if re.search(r"update [\d,]+ · .* w0 [\d,.]+/s w1 [\d,.]+/s", line)
    ]
    assert len(lines) >= 1
