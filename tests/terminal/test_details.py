"""What is shown of one run."""

from rich.console import Console

from analyze.made import made
from paceline.store.result import Result, Suspect, Verdict
from paceline.terminal.details import details


def rendered(result: Result, width: int = 200) -> list[str]:
    console = Console(width=width)
    with console.capture() as output:
        console.print(details(result))
    return [line.rstrip() for line in output.get().splitlines()]


def settings_line(settings: dict[str, object]) -> str:
    return next(line for line in rendered(made(settings=settings)) if line.startswith("settings"))


def test_settings_with_their_default_are_not_listed() -> None:
    usual = {"stop": ["steps=5"], "checkpoint_keep": 3, "backup": 0, "restarts": 3, "lr": None, "record": True}
    assert settings_line(usual).split() == ["settings", "stop", "steps=5"]
    assert settings_line(usual | {"backup": 1}).split() == ["settings", "stop", "steps=5,", "backup", "1"]


def test_the_bottleneck_is_shown_with_evidence_second_cause_and_remedies() -> None:
    verdict = Verdict(
        cause="network", where="h1, outbound link", share=0.76, confidence="high", evidence=["first", "second"],
        remedy=["use a faster link"], runner_up=Suspect(cause="barrier", where="all workers", share=0.1),
    )  # fmt: skip
    lines = rendered(made(verdict=verdict))
    start = next(number for number, line in enumerate(lines) if line.startswith("bottleneck"))
    assert [line.split(maxsplit=1) for line in lines[start : start + 2]] == [
        ["bottleneck", "network: h1, outbound link (76 % of the workers' time, high confidence)"],
        ["evidence", "first"],
    ]
    assert [line.strip() for line in lines[start + 2 : start + 5]] == [
        "second",
        "second cause  synchronization barrier: all workers, 10 %",
        "remedy        use a faster link",
    ]


def test_times_are_named() -> None:
    assert "time           training 1.00 s, startup 3.00 s, total 5.00 s" in rendered(made())


def test_conditions_that_affect_the_numbers_are_noted() -> None:
    text = "\n".join(rendered(made(other_cores_mean=1.3, traced_steps=52, train_s=0.5)))
    assert "background load: 1.3 cores" in text
    assert "phase times estimated from 52 traced steps" in text
    assert "training took only 0.50 s: too short for reliable host metrics" in text
