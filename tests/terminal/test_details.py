"""What is told of one run."""

from rich.console import Console

from analyze.made import made
from paceline.terminal.details import details


def settings_line(settings: dict[str, object]) -> str:
    console = Console(width=200)
    with console.capture() as told:
        console.print(details(made(settings=settings)))
    return next(line for line in told.get().splitlines() if line.startswith("settings"))


def test_only_settings_that_were_asked_for_are_told() -> None:
    usual = {"stop": ["steps=5"], "checkpoint_keep": 3, "backup": 0, "restarts": 3, "lr": None, "record": True}
    assert settings_line(usual).split() == ["settings", "stop", "steps=5"]
    assert settings_line(usual | {"backup": 1}).split() == ["settings", "stop", "steps=5,", "backup", "1"]
