from io import StringIO

from rich.console import Console, RenderableType

from analyze.made import made
from paceline.analyze.comparison import compare
from paceline.store.result import FaultResult
from paceline.terminal.compare import comparison_view
from paceline.terminal.details import details

KILL = FaultResult(
    what="kill w1 at 10s", task="w1", host="h2", at_s=10.0, detected_s=0.25, restarted_s=3.5, back_at_speed_s=4.0,
    updates_lost=1_200,
)  # fmt: skip
NOT_INJECTED = FaultResult(what="cut h2 for 5s at 90s")


def rendered(content: RenderableType) -> list[str]:
    console = Console(width=160, file=StringIO(), record=True)
    console.print(content)
    return console.export_text().splitlines()


def test_a_run_shows_each_fault_and_the_recovery() -> None:
    lines = rendered(
        details(made(faults=[KILL, NOT_INJECTED], train_s=20.0, settings={"fault": [KILL.what, NOT_INJECTED.what]}))
    )
    (killed,) = [line for line in lines if line.startswith(KILL.what)]
    assert killed.removeprefix(KILL.what).split() == ["10.0", "-", "0.25", "3.50", "4.00", "1,200"]
    (not_injected,) = [line for line in lines if line.startswith(NOT_INJECTED.what)]
    assert not_injected.removeprefix(NOT_INJECTED.what).split()[:3] == ["did", "not", "occur"]
    assert any("faults were injected; throughput and bottleneck include their effect" in line for line in lines)


def test_a_fault_after_the_last_update_is_said_to_have_had_no_effect() -> None:
    late = FaultResult(what=KILL.what, at_s=10.0)
    lines = rendered(details(made(faults=[late], train_s=9.0, settings={"fault": [late.what]})))
    assert not any("include their effect" in line for line in lines)
    assert any("a fault was injected after the last update" in line for line in lines)


def test_a_run_without_faults_has_no_fault_table() -> None:
    assert not [line for line in rendered(details(made(settings={"fault": []}))) if "fault" in line]


def test_runs_with_faults_are_a_configuration_of_their_own() -> None:
    plain = [made(f"a-{number}", settings={"stop": ["steps=100"], "fault": []}) for number in (1, 2)]
    hit = made("b-1", settings={"stop": ["steps=100"], "fault": [KILL.what]}, faults=[KILL])
    spared = made("b-2", settings=hit.settings, faults=[FaultResult(what=KILL.what)])
    found = compare([*plain, hit, spared])
    assert found.names == ["without faults", "with 'kill w1 at 10s'"]
    assert len(found.groups) == 2
    text = " ".join(" ".join(rendered(comparison_view(found))).split())
    assert (
        "with 'kill w1 at 10s': throughput includes the effect of an injected fault: kill w1 at 10s (in 1 of 2 runs)"
        in text
    )
    assert "without faults: throughput" not in text
