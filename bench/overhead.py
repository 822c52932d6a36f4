"""What measuring costs: the same run with and without it, and the processor's own account of who worked."""

import tempfile
import time
from pathlib import Path
from statistics import median

import msgspec

import paceline
from bench.ledger import Ledger, Shares
from bench.measure import Pace, console, result_of, show
from paceline.train.recorder import Recorder, clock_ns

_RECORDS = 200_000


class Measured(msgspec.Struct, frozen=True):
    updates_per_s: float
    shares: Shares
    records_per_update: float


def overhead(rounds: int) -> None:
    """Pace in pairs, on-off then off-on: a machine that slows down or speeds up hits both alike. The account is of
    other runs, since keeping it disturbs, too."""
    paces: dict[str, Pace] = {}
    claims = {}
    record_s = _seconds_a_record()
    for strategy, layout in (("ps-async", "cluster2"), ("single", "single")):
        on: list[float] = []
        off: list[float] = []
        fields = {"strategy": strategy, "layout": layout, "stop": "seconds=4"}
        for number in range(4 * rounds):
            for record in (True, False) if number % 2 == 0 else (False, True):
                (on if record else off).append(result_of("logreg", record=record, **fields).updates_per_s)
            pair = f"{on[-1]:,.0f} measured, {off[-1]:,.0f} not"
            console.print(f"  {strategy}, pair {number + 1} of {4 * rounds}: {pair} (updates/s)", style="dim")
        paces[f"{strategy}, measured"], paces[f"{strategy}, not measured"] = Pace(tuple(on)), Pace(tuple(off))
        slower = sorted(1 - a / b for a, b in zip(on, off, strict=True))
        quarter = len(slower) // 4
        claims[f"{strategy}: slow-down in %, median of pairs"] = (
            100 * median(slower),
            f"middle half {100 * slower[quarter]:.1f} to {100 * slower[-1 - quarter]:.1f}",
        )
        accounts = [
            _accounted(_run(strategy, layout, record=True), _run(strategy, layout, record=False), record_s)
            for _ in range(rounds)
        ]
        claims[f"{strategy}: share of the CPU used that is measuring, in %"] = (
            100 * median(accounts),
            "wanted: 2 at most",
        )
    show("What measuring costs (torch, logreg, batch 100)", paces, claims)


def _accounted(on: Measured, off: Measured, record_s: float) -> float:
    """Agents and controller beyond what they use without measuring, and the records that the tasks write."""
    cpu_per_update = (on.shares.training + on.shares.watching) / on.shares.seconds / on.updates_per_s
    recording = on.records_per_update * record_s / cpu_per_update
    return on.shares.overhead - off.shares.overhead + recording


def _run(strategy: str, layout: str, *, record: bool) -> Measured:
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as runs, Ledger() as ledger:
        (result,) = paceline.run("logreg", runs=runs, strategy=strategy, layout=layout, stop="seconds=4", record=record)
        if result.status != "ok":
            raise RuntimeError(f"a run of the bench ended {result.status}: {result.reason}")
        rows = _rows(Path(result.dir) / "steps.parquet")
    return Measured(result.updates_per_s, ledger.shares(), rows / result.updates)


def _rows(path: Path) -> int:
    import polars

    return int(polars.scan_parquet(path).select(polars.len()).collect().item())


def _seconds_a_record() -> float:
    """A phase around nothing, again and again."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        recorder = Recorder(Path(folder) / "records")
        started = time.perf_counter()
        for number in range(_RECORDS // 2):
            with recorder.compute:
                pass
            recorder.end_step(clock_ns(), number, 0.0, 0)
        return (time.perf_counter() - started) / _RECORDS
