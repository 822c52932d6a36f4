"""Finishing a run, which is to make its tables and its result, needs memory that does not grow with its length."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from report.stored import leave_killed_run

MAX_MB = 400
"""For a run of 5 million step records."""
_FINISH = """
import json, resource, sys
from pathlib import Path
from paceline.analyze.load import load_result
from paceline.store.paths import RunPaths

result = load_result(RunPaths(Path(sys.argv[1])))
if sys.platform == "linux":
    # Not from getrusage: there a new program begins with the peak of the process that started it.
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    peak_mb = int(line.split()[1]) * 1024 / 1e6
else:
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(json.dumps({"peak_mb": peak_mb, "steps": sum(worker.steps for worker in result.workers)}))
"""


def _peak_mb(runs: Path, strategy: str, records: int) -> float:
    """Peak resident memory of a process that finishes a killed run with this number of step records."""
    layout = "w w" if strategy == "allreduce" else "pw w"
    paths = leave_killed_run(runs, strategy=strategy, layout=layout, steps=records // 2)
    finished = subprocess.run(
        [sys.executable, "-c", _FINISH, str(paths.directory)], capture_output=True, text=True, check=True
    )
    found = json.loads(finished.stdout)
    assert found["steps"] == records
    assert not paths.journal.exists()
    return float(found["peak_mb"])


@pytest.mark.parametrize("strategy", ["ps-async", "allreduce"])
def test_ten_times_the_records_do_not_need_ten_times_the_memory(tmp_path: Path, strategy: str) -> None:
    nothing, some, many = (_peak_mb(tmp_path / "runs", strategy, records) for records in (2, 40_000, 400_000))
    print(f"{strategy}: {nothing:.0f} MB without records, {some:.0f} MB with 40,000, {many:.0f} MB with 400,000")
    assert many < 2 * some
    assert many - nothing < 4 * (some - nothing)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("strategy", ["ps-async", "allreduce"])
def test_finishing_a_run_of_five_million_records_needs_little_memory(tmp_path: Path, strategy: str) -> None:
    peak = _peak_mb(tmp_path / "runs", strategy, 5_000_000)
    print(f"{strategy}: peak {peak:.0f} MB")
    assert peak < MAX_MB
