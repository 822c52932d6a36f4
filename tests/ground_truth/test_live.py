"""The analysis of real runs finds the bottleneck that was created on purpose."""

from pathlib import Path

import msgspec
import pytest
from bench.cpu_steal import StealMeter

from ground_truth.cases import CASES, SPARK_CASES, Case
from ground_truth.run import is_right, run
from paceline.engines.registry import engines
from paceline.engines.spark.java import problems

_TRIES = 3
"""A run is repeated if a hypervisor took CPU time away during it, because that is a second bottleneck."""
QUICK = {
    "compute-torch", "network-torch-async", "server-torch-async", "straggler-torch-sync", "barrier-torch-sync",
    "input-torch", "overhead-torch", "contention-one-core-async", "startup-torch", "imbalance-servers",
}  # fmt: skip


_SPARK_PROBLEMS = [*([] if engines()["spark"].installed else ["pyspark is not installed"]), *problems()]
_NEEDS_SPARK = pytest.mark.skipif(bool(_SPARK_PROBLEMS), reason="; ".join(_SPARK_PROBLEMS))


def _marked(case: Case) -> object:
    marks = [] if case.name in QUICK else [pytest.mark.slow]
    marks += [pytest.mark.netns] if case.spec.get("hosts") == "netns" else []
    marks += [_NEEDS_SPARK] if case in SPARK_CASES else []
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", [_marked(case) for case in (*CASES, *SPARK_CASES)])
def test_bottleneck_of_a_real_run_is_the_one_that_was_created(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in case.env.items():
        monkeypatch.setenv(name, value)
    for _ in range(_TRIES):
        with StealMeter() as steal:
            result = run(case, tmp_path)
        assert result.status == "ok", result.reason
        verdict = result.verdict
        right = is_right(case, result)
        if right or not steal.is_too_high:
            break
    assert right, msgspec.json.encode(verdict).decode()  # As JSON, because pytest shortens a long repr.
    assert verdict.evidence
    if case.onset_s is not None:
        noticed = [one.t_s for one in result.incidents if f"bottleneck is now {case.cause}" in one.what]
        started_s = result.total_s - result.train_s
        assert noticed, result.incidents
        assert noticed[0] - started_s - case.onset_s < 12, (noticed, result.incidents)


def test_every_cause_has_at_least_two_cases() -> None:
    causes = [case.cause for case in CASES]
    assert {cause: causes.count(cause) for cause in causes if causes.count(cause) < 2} == {}
    assert {case.cause for case in CASES if case.name in QUICK} == set(causes)
