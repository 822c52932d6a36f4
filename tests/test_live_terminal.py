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
    *("--stop", "seconds=8", "--eval-every", "500", "--fault", "freeze w1 for 5s at 2s", "--runs"),
]
WIDTH, HEIGHT = 80, 24


def on_a_terminal(command: list[str]) -> str:
    """The output of a command on a small terminal, without escape sequences."""
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": str(HEIGHT)}
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
def test_a_small_terminal_shows_workers_hosts_progress_and_the_fault_without_wrapping(tmp_path: Path) -> None:
    output = on_a_terminal([*RUN, str(tmp_path / "runs")])
    frames, _, result = output.partition("\nrun ")
    lines = [line for part in frames.split("\n") for line in part.split("\r")]
    assert max(map(len, lines)) <= WIDTH
    assert re.search(r"opening the hosts|waiting for the (agents|tasks) to ", output)
    assert re.search(r"worker +host +steps +steps/s +loss +time by phase", output)
    assert re.search(r"w1 +h2 +[\d,]+ +[\d,.]+ +\d\.\d{4} +█+ \w+ \d+ %", output)
    assert re.search(r"w1 +h2 +[\d,]+ +0 +\d\.\d{4} +no step for \d s, fault: freeze", output)
    assert re.search(r"host +cores used +memory \(MB\) +network \(MB/s\) +loopback \(MB/s\)", output)
    assert re.search(r"h2 +0?\.?\d[\d.]* +\d+ ", output)
    assert re.search(r"update [\d,]+ · [\d,.]+/s · test loss 0\.\d{4}, accuracy \d\d\.\d\d %", output)
    assert re.search(r"━─* +\d+ % · \d\.\d s · about \d s left", output)
    assert re.search(r"updates/s [▁▂▃▄▅▆▇█_]+ highest [\d,.]+ +loss [▁▂▃▄▅▆▇█]+ now \d\.\d{4}", output)
    assert re.search(r"2\.\d s  fault: freeze w1 for 5s at 2s", output)
    assert re.search(r"2\.\d–7\.\d s  fault: freeze w1 for 5s at 2s", output)
    assert re.search(r"ps0 +h1 +[\d.]+ +[\d,.]+", frames)
    assert "bottleneck" in result


@pytest.mark.timeout(120)
def test_a_sweep_says_which_run_it_makes_and_when_all_are_done(tmp_path: Path) -> None:
    sweep = [*RUN[:5], "--batch", "50,100", "--stop", "seconds=2", "--runs", str(tmp_path / "runs")]
    output = on_a_terminal(sweep)
    assert re.search(r"run 1 of 2 · all done in about \d+ s · logreg · torch · single · batch 50", output)
    assert re.search(r"run 2 of 2 · all done in about \d s · logreg · torch · single · batch 100", output)


@pytest.mark.timeout(120)
def test_without_a_terminal_there_are_plain_lines_for_progress_and_faults(tmp_path: Path) -> None:
    done = subprocess.run([*RUN, str(tmp_path / "runs")], capture_output=True, text=True, timeout=100, check=True)
    assert "\x1b" not in done.stderr + done.stdout
    lines = done.stderr.splitlines()
    assert [line for line in lines if re.search(r"update [\d,]+ · .* left · w0 [\d,.]+/s w1 [\d,.]+/s", line)]
    assert [line for line in lines if re.fullmatch(r"  2\.\d s  fault: freeze w1 for 5s at 2s", line)]
    assert [line for line in lines if re.fullmatch(r"  2\.\d–7\.\d s  fault: freeze w1 for 5s at 2s", line)]
