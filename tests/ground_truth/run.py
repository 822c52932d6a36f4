"""PYTHONPATH=tests python -m ground_truth.run [NAME...]: runs cases and prints what was expected and what was found."""

import os
import sys
import tempfile
from pathlib import Path

import paceline
from ground_truth.cases import BY_NAME, Case
from paceline.store.result import Result


def run(case: Case, runs: Path) -> Result:
    os.environ.update(case.env)
    (result,) = paceline.run(**case.spec, runs=str(runs), name=case.name)
    return result


def is_right(case: Case, result: Result) -> bool:
    verdict = result.verdict
    return result.status == "ok" and verdict.cause == case.cause and case.where in verdict.where


def main() -> None:
    names, wrong = sys.argv[1:] or list(BY_NAME), 0
    with tempfile.TemporaryDirectory() as runs:
        for name in names:
            case = next(BY_NAME[one] for one in BY_NAME if one == name)
            result = run(case, Path(runs))
            verdict, right = result.verdict, is_right(case, result)
            wrong += not right
            second = verdict.runner_up
            print(
                f"{'right' if right else 'WRONG'} {name}: {verdict.cause} at {verdict.where} {verdict.share:.0%} "
                f"({verdict.confidence}), then {second.cause if second else '-'} {second.share if second else 0:.0%}",
                flush=True,
            )
            if not right:
                print(f"      {result.status} {result.reason or ''}", *verdict.evidence, sep="\n      ", flush=True)
    print(f"{len(names) - wrong} of {len(names)} right")


if __name__ == "__main__":
    main()
