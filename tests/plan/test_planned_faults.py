from typing import Any

import pytest

from paceline.errors import PlanError
from paceline.pipeline import plan
from paceline.spec.load import experiment


def make_plan(fault: str, **fields: Any) -> None:
    spec_fields = {"workload": "logreg", "strategy": "ps-async", "layout": "pw w", "stop": "seconds=60", **fields}
    plan(experiment({**spec_fields, "fault": fault}))


@pytest.mark.parametrize("fault", ["kill ps0 at 10s", "freeze w1 for 5s at step 10", "freeze h2 for 5s at 0s"])
def test_faults_by_signal_are_accepted_on_local_hosts(fault: str) -> None:
    make_plan(fault)


@pytest.mark.parametrize(
    ("fault", "fields", "message"),
    [
        ("kill w2 at 5s", {}, "unknown task 'w2': did you mean w1 or w0"),
        ("kill ps0 at 5s", {"strategy": "allreduce", "layout": "w w"}, "unknown task 'ps0'"),
        ("freeze h3 for 5s at 5s", {}, "unknown host 'h3': did you mean h2 or h1"),
        ("kill w1 at 60s", {}, "the run ends after 60 s"),
        ("kill w1 at step 100", {"stop": "steps=100"}, "the run ends after 100 updates"),
        ("kill w1 at step 1200", {"stop": "epochs=2", "batch": 100}, "the run ends after 1200 updates"),
    ],
)
def test_fault_with_unknown_target_or_late_start_is_refused(fault: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message) as refusal:
        make_plan(fault, **fields)
    assert fault in str(refusal.value)


@pytest.mark.parametrize(
    "fault", ["cut h2 for 5s at 10s", "slow h2 to 0.2 cpus at 10s", "limit h2 to 10mbit at 10s"]
)  # fmt: skip
def test_cut_slow_and_limit_are_refused_on_local_hosts(fault: str) -> None:
    with pytest.raises(PlanError, match=f"fault '{fault}' is not supported on hosts local: use --hosts netns"):
        make_plan(fault)
