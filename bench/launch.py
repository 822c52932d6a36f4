"""What observing a user's script costs, and what Paceline and TraceML say about scripts with a known bottleneck."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median

from bench.peers.causes import CAUSES

_SCRIPT = Path(__file__).with_name("peers") / "causes.py"
_STEPS_FOR_TURNS = 4_000
_STEPS_FOR_MEMORY = 8_000
"""With 2 to 5 ms each, at least 16 s."""
_RESAMPLES = 2_000
_LIMIT_S = 300.0


def observation(rounds: int) -> None:
    """The share of a step's time that observation takes, by turns inside of one run; 1 and 2 ranks.

    Paceline's hooks are taken out of torch and put back. Of TraceML only its step is left out: what its other hooks do
    between steps counts as unobserved.
    """
    print("\nWhat observation adds to a step (switched on and off every 40 steps of one run)")
    print(f"{'tool':<10}{'ranks':<8}{'step (ms)':>11}{'overhead':>11}   95 % interval")
    tools = {"paceline": _run_in_turns, "traceml": _traceml_in_turns}
    if not shutil.which("traceml", path=_path()):
        del tools["traceml"]
    for ranks, width in ((1, 1000), (2, 700)):
        ratios: dict[str, list[float]] = {tool: [] for tool in tools}
        steps_ms: dict[str, list[float]] = {tool: [] for tool in tools}
        for _ in range(rounds):
            for tool, run in tools.items():
                turns = run(ranks, width)
                pairs = list(zip(turns["on"], turns["off"], strict=False))
                # Means: not every step bears its share of what is done several times per second.
                ratios[tool] += [mean(on) / mean(off) - 1 for on, off in pairs if on and off]
                steps_ms[tool] += [mean(off) / 1e6 for _, off in pairs if off]
        for tool, values in ratios.items():
            low, high = _interval(values)
            overhead = f"{median(values) * 100:>9.2f} %   {low * 100:.2f} to {high * 100:.2f} %"
            print(f"{tool:<10}{ranks:<8}{median(steps_ms[tool]):>11.2f}{overhead}")


def causes(rounds: int) -> None:
    """What Paceline and TraceML name as the bottleneck of two ranks with a known cause."""
    del rounds
    print("\nTwo ranks with a bottleneck that is made on purpose; rank 1 is the slow one")
    for cause in CAUSES:
        print(f"\n{cause}")
        print(f"  paceline: {_paceline_says(cause)}")
        print(f"  traceml:  {_traceml_says(cause) if shutil.which('traceml', path=_path()) else 'not installed'}")


_Turns = dict[str, list[list[float]]]
"""By `on` and `off`: the durations of the steps of each turn, in ns."""


def _run_in_turns(ranks: int, width: int) -> _Turns:
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        file = Path(folder) / "turns.json"
        _launch(folder, "w" * ranks, _turn_arguments(width, file))
        turns: _Turns = json.loads(file.read_text())
        return turns


def _traceml_in_turns(ranks: int, width: int) -> _Turns:
    with tempfile.TemporaryDirectory(prefix="traceml-bench-") as folder:
        file = Path(folder) / "turns.json"
        done = _traceml(folder, ranks, _turn_arguments(width, file))
        if not file.exists():
            raise RuntimeError(done.stderr[-2000:])
        turns: _Turns = json.loads(file.read_text())
        return turns


def _turn_arguments(width: int, file: Path) -> list[str]:
    return ["--steps", str(_STEPS_FOR_TURNS), "--width", str(width), "--turns", str(file)]


def _traceml(folder: str, ranks: int, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = ["traceml", "run", str(_SCRIPT), f"--nproc-per-node={ranks}", "--args", *arguments]
    environment = {**os.environ, "BENCH_TOOL": "traceml", "PATH": _path()}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, cwd=folder, env=environment
    )


def _launch(folder: str, layout: str, arguments: Sequence[str], *options: str) -> dict[str, object]:
    command = [sys.executable, "-m", "paceline", "launch", "--layout", layout, "--runs", folder, "--json", *options]
    done = subprocess.run(
        [*command, str(_SCRIPT), *arguments], capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def _paceline_says(cause: str) -> str:
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        options = ["--hosts", "netns", "--link", "100mbit"] if cause == "link" else []
        result = _launch(folder, "w w" if cause == "link" else "ww", _cause_arguments(cause), *options)
    verdict = result["verdict"]
    assert isinstance(verdict, dict)
    lines = [f"{verdict['cause']}, {verdict['where']} ({verdict['share']:.0%})", *verdict["evidence"]]
    growth = result["memory_growth"]
    assert isinstance(growth, list)
    lines += [f"memory of {one['task']} grows by {one['mb_per_s']:.1f} MB/s" for one in growth]
    return "; ".join(lines)


def _traceml_says(cause: str) -> str:
    """The verdict of TraceML's summary. It has no hosts with limited links."""
    if cause == "link":
        return "cannot limit a link"
    with tempfile.TemporaryDirectory(prefix="traceml-bench-") as folder:
        done = _traceml(folder, 2, _cause_arguments(cause))
        texts = sorted(Path(folder).rglob("final_summary.txt"))
        text = texts[-1].read_text() if texts else done.stdout + done.stderr
    lines = [line.strip(" |") for line in text.splitlines()]
    said = [line for line in lines if line.startswith(("Verdict", "Why", "STEP MEMORY"))]
    return "; ".join(said) or f"no verdict: {' '.join(lines[-3:])}"


def _cause_arguments(cause: str) -> list[str]:
    # Growth of memory is judged from 12 s of training on.
    return ["--cause", cause, *(["--steps", str(_STEPS_FOR_MEMORY)] if cause == "memory" else [])]


def _path() -> str:
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median by resampling, always with the same resamples."""
    chance = random.Random(1)
    medians = sorted(median(chance.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    return medians[int(0.025 * _RESAMPLES)], medians[int(0.975 * _RESAMPLES)]
