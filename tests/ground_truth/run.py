"""Runs the cases and prints whether the right bottleneck was found.

Usage: PYTHONPATH=tests python -m ground_truth.run [NAME...] [--record]

Without names, all cases run but those on Spark, which take about a minute each.

--record stores the correct runs next to this file, for tests of the analysis that start no processes.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import paceline
from ground_truth.cases import BY_NAME, CASES, Case
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.verdict import Verdict

ONSET_TOLERANCE_S = 1.5
"""A fault takes effect some tenths of a second after its time, and windows have a length of a second."""
RECORDED = Path(__file__).with_name("recorded")


def run(case: Case, runs: Path) -> Result:
    with patch.dict(os.environ, case.env):
        (result,) = paceline.run(**case.spec, runs=str(runs), name=case.name, check=False)
    return result


def is_right(case: Case, result: Result) -> bool:
    verdict = result.verdict
    named = verdict.cause == case.cause and case.where in verdict.where
    return result.status == "ok" and named and began_in_time(case, verdict)


def began_in_time(case: Case, verdict: Verdict) -> bool:
    """Whether the start of the bottleneck was found, if it began in the middle of the training."""
    starts = [one.start_s for one in verdict.episodes if one.cause == case.cause and case.where in one.where]
    return case.onset_s is None or any(abs(start_s - case.onset_s) <= ONSET_TOLERANCE_S for start_s in starts)


def record(case: Case, result: Result) -> None:
    """Store the files of the run that the analysis reads."""
    target, paths = RECORDED / case.name, RunPaths(Path(result.dir))
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for table in (paths.steps, paths.samples):
        shutil.copy(table, target)
    for text in (paths.spec, paths.events):
        # Remove the path of this checkout from the recorded files.
        (target / text.name).write_text(text.read_text().replace(f"{RECORDED.parent}/", ""))


def main() -> None:
    given = [argument for argument in sys.argv[1:] if argument != "--record"]
    names = given or [case.name for case in CASES]
    wrong = 0
    with tempfile.TemporaryDirectory() as runs:
        for case in [BY_NAME[name] for name in names]:
            result = run(case, Path(runs))
            right = is_right(case, result)
            wrong += not right
            _print_finding(case, result, right=right)
            if right and "--record" in sys.argv:
                record(case, result)
    print(f"{len(names) - wrong} of {len(names)} right")


def _print_finding(case: Case, result: Result, *, right: bool) -> None:
    verdict = result.verdict
    second = f"{verdict.runner_up.cause} {verdict.runner_up.share:.0%}" if verdict.runner_up else "-"
    print(
        f"{'right' if right else 'WRONG'} {case.name}: {verdict.cause}, {verdict.where}, {verdict.share:.0%} "
        f"({verdict.confidence}), next {second}",
        flush=True,
    )
    if not right:
        print(f"      {result.status} {result.reason or ''}", *verdict.evidence, sep="\n      ", flush=True)


if __name__ == "__main__":
    main()
