"""The scale benchmark measures the controller alone, and only while the workers train."""

import subprocess
import sys
from pathlib import Path

import pytest
from bench.scale import ScaleResult, Usage, markdown, sampled_usage, summarize, training_start_s

from paceline.store.header import EVENT

BUSY_WITH_A_BUSY_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
while time.process_time() < 0.6: pass
child.kill()
child.wait()
"""


def test_cpu_time_counts_only_during_training_and_memory_until_the_end() -> None:
    usage = [Usage(100.0 + second, cpu_s, memory) for second, cpu_s, memory in ((0, 2, 90), (1, 5, 100), (6, 7, 110))]
    usage.append(Usage(107.0, 20, 300))
    record = {"train_s": 5.0, "first_step_s": 4.0, "updates_per_s": 1234.5}
    assert summarize(record, usage, start_s=101.0) == ScaleResult(4.0, 1234.5, 0.4, 300)


def test_the_usage_of_a_process_does_not_include_that_of_its_children() -> None:
    process = subprocess.Popen([sys.executable, "-c", BUSY_WITH_A_BUSY_CHILD])
    with sampled_usage(process.pid) as usage:
        assert process.wait(60) == 0
    assert usage[-1].cpu_s < 1.2 * 0.6
    assert [sample.cpu_s for sample in usage] == sorted(sample.cpu_s for sample in usage)


def test_the_start_of_training_is_read_from_the_events_of_a_run(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text(
        f'{{"t_s": 0.1, "event": "{EVENT}", "clock_zero_ns": 5000000000}}\n{{"t_s": 2.5, "event": "go"}}\n'
    )
    assert training_start_s(events) == pytest.approx(7.5)


def test_the_table_is_markdown() -> None:
    rows = [["local", "3", *ScaleResult(9.16, 1698.3, 0.0123, 145.2).cells]]
    assert markdown(rows).splitlines()[-1] == "| local | 3 | 9.2 | 1,698 | 0.01 | 145 |"
