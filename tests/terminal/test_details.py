"""What is shown of one run."""

from rich.console import Console

from analyze.made import made
from paceline.store.result import Incident, PairLink, Result
from paceline.store.verdict import AccountedTime, Verdict
from paceline.terminal.details import details


def rendered(result: Result, width: int = 200) -> list[str]:
    console = Console(width=width)
    with console.capture() as output:
        console.print(details(result), crop=False)
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
        remedy=["use a faster link"], runner_up=AccountedTime(cause="barrier", where="all workers", share=0.1),
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


def test_a_command_is_on_a_line_of_its_own_at_80_columns() -> None:
    command = "paceline run logreg --engine torch --strategy ps-sync --layout 'pw w w w' --batch 100 --stop epochs=1"
    remedy = [f"use as many workers as the cores can carry; command: {command}", "use more cores"]
    verdict = Verdict(cause="contention", where="h1", share=0.76, evidence=["first"], remedy=remedy)
    lines = [line.strip() for line in rendered(made(verdict=verdict, other_cores_mean=1.3), width=80)]
    start = lines.index("remedy        use as many workers as the cores can carry")
    assert lines[start + 1 : start + 3] == [command, "use more cores"]
    assert lines[start + 3].startswith("note")


def test_times_are_named() -> None:
    assert "time           training 1.00 s, startup 3.00 s, total 5.00 s" in rendered(made())


def test_conditions_that_affect_the_numbers_are_noted() -> None:
    text = "\n".join(rendered(made(other_cores_mean=1.3, traced_steps=52, train_s=0.5)))
    assert "background load: 1.3 cores" in text
    assert "phase times estimated from 52 traced steps; updates/s and examples/s leave out traced steps" in text
    assert "training took only 0.50 s: too short for reliable host metrics" in text


def test_a_resumed_run_says_how_many_updates_it_made_itself() -> None:
    text = "\n".join(rendered(made(updates=600, updates_before=213)))
    assert "(600 updates, 387 of them in this run after 213 in the resumed one)" in text


def pair_link(sender: str, receiver: str, mb_s: float) -> PairLink:
    return PairLink(sender=sender, receiver=receiver, mb_s=mb_s, rtt_ms=0.25, rtt_min_ms=0.2)


def test_links_between_all_hosts_are_a_matrix() -> None:
    names = ["h2", "h1", "h10"]
    links = [pair_link(one, other, 12.0) for one in names for other in names if one != other]
    lines = rendered(made(links=links))
    start = next(number for number, line in enumerate(lines) if line.startswith("links between hosts"))
    assert lines[start + 1].split() == ["from", "\\", "to", "h1", "h2", "h10"]
    matrix = [line.split(maxsplit=1) for line in lines[start + 2 : start + 6] if line.startswith("h")]
    assert [row[0] for row in matrix] == ["h1", "h2", "h10"]
    assert [row[1].split("  ")[0] for row in matrix] == ["-", "12.0 · 0.25", "12.0 · 0.25"]


def test_links_of_a_ring_are_a_list_and_no_links_are_not_shown() -> None:
    ring = [pair_link("h1", "h2", 12.0), pair_link("h2", "h3", 3.0), pair_link("h3", "h1", 5.0)]
    lines = rendered(made(links=ring))
    assert ["h2", "h3", "3.00", "0.25"] in [line.split() for line in lines]
    assert not any(line.startswith("links") for line in rendered(made()))


def test_a_run_that_failed_before_its_first_step_is_shown_without_tables_of_zeros() -> None:
    lost = Incident(t_s=1.5, what="w1 on h2 was killed", task="w1", host="h2")
    failed = made(
        status="failed", reason="w1 on h2 was killed", steps=[0, 0], updates=0, examples=0, train_s=0.0,
        updates_per_s=0.0, examples_per_s=0.0, loss=None, accuracy=None, first_step_s=None, incidents=[lost],
    )  # fmt: skip
    lines = rendered(failed)
    labels = [line.split("  ")[0] for line in lines if line and not line.startswith(" ")]
    assert labels == [
        "run", "status", "configuration", "settings", "data", "time", "directory", "logs", "steps", "incident",
    ]  # fmt: skip
    assert any(line.split() == ["logs", "runs/sweep-1/logs/w1.log"] for line in lines)
    assert any(line.startswith("status") and "failed: w1 on h2 was killed" in line for line in lines)
    assert any(line.split("  ")[-1].strip() == "1.50 s after the start: w1 on h2 was killed" for line in lines)


def test_incidents_have_the_time_of_training_like_faults() -> None:
    lost = Incident(t_s=18.72, at_s=3.48, what="w1 on h2 was killed")
    assert any("3.48 s: w1 on h2 was killed" in line for line in rendered(made(incidents=[lost])))


def test_a_run_that_failed_during_training_keeps_its_tables_and_names_the_logs() -> None:
    lines = rendered(made(status="failed", reason="the disk is full"))
    assert any(line.split() == ["logs", "runs/sweep-1/logs"] for line in lines)
    assert any(line.startswith("worker ") for line in lines)


def test_a_single_step_without_a_record_is_one_step() -> None:
    assert "1 step without a record: the worker was killed" in "\n".join(rendered(made(unrecorded_steps=1)))


def test_the_time_limit_is_one_of_the_settings() -> None:
    assert any(line.startswith("settings") and "time limit 90s" in line for line in rendered(made(time_limit_s=90.0)))
