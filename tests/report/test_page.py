"""The contents of the page, also for failed runs and for names that contain markup."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.analyze.bottleneck.explain import MEANINGS
from paceline.analyze.repeats import group_repeats
from paceline.cli.main import run_command
from paceline.page import assets
from paceline.page.offline import offline_html
from paceline.present.colours import PHASE_COLOURS
from paceline.present.glossary import GLOSSARY
from paceline.present.labels import CAUSES
from paceline.report.build import build
from paceline.report.selection import MOST_RUNS, select_runs
from paceline.store.paths import RunPaths
from report.stored import result_of, store_run

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&|*"
Data = dict[str, Any]


def page_of(runs: Path, *arguments: str) -> str:
    out = runs.parent / "page.html"
    assert run_command(["report", *arguments, "--runs", str(runs), "--out", str(out)]) == 0
    return out.read_text()


def data_of(page: str) -> Data:
    found: Data = json.loads(re.findall(r'<script type="application/json" id="page-data">(.*?)</script>', page)[0])
    return found["page"]  # type: ignore[no-any-return]


def sections_of(page: str) -> dict[str, Data]:
    return {section["key"]: section for section in data_of(page)["sections"]}


def blocks_of(value: Any) -> Iterator[Data]:
    """All blocks, also those inside of other blocks."""
    if isinstance(value, dict):
        if "kind" in value:
            yield value
        for inner in value.values():
            yield from blocks_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from blocks_of(inner)


def charts_of(section: Data) -> dict[str, Data]:
    return {block["key"]: block for block in blocks_of(section["blocks"]) if "key" in block}


def test_the_first_section_answers_with_winners_a_chart_bottlenecks_and_conditions(
    runs: Path, sweep: list[RunPaths]
) -> None:
    blocks = {block["kind"]: block for block in sections_of(page_of(runs, "sweep"))["answer"]["blocks"]}
    goals = {row["goal"]: row for row in blocks["goals"]["rows"]}
    assert goals["most examples/s"]["winner"] == "ps-async 'pw w w' batch 200"
    assert "1.50× faster than" in goals["most examples/s"]["lead"]
    assert goals["most examples/s"]["value"].endswith(" examples/s")
    views = {view["name"]: view for view in blocks["bars"]["views"]}
    rows = views["examples/s"]["rows"]
    assert [row["label"] for row in rows if row.get("best")] == ["ps-async 'pw w w' batch 200"] == [rows[0]["label"]]
    assert rows[0]["value"] == max(row["value"] for row in rows)
    assert all(row["note"].startswith("compute: w0") for row in rows)
    facts = dict(blocks["facts"]["rows"])
    assert {"machine", "versions", "hosts", "link", "cpus", "background load", "repeats", "data"} <= facts.keys()
    assert facts["machine"] == "4 cores, one machine for all hosts"
    assert facts["repeats"] == "2 runs per configuration"


def test_a_run_has_all_charts_for_which_it_has_data(runs: Path) -> None:
    paths = store_run(runs, incident="w0 was slow")
    page = page_of(runs, paths.id)
    charts = charts_of(sections_of(page)["runs"])
    assert [*charts] == ["quality", "throughput", "phases", "timeline", "shares", "hosts", "steps", "staleness"]
    assert [view["name"] for view in charts["quality"]["views"]] == ["updates", "examples", "seconds"]
    assert charts["timeline"]["rows"] == ["w0 on h1", "w1 on h2"]
    assert [mark["text"] for mark in charts["hosts"]["marks"]] == ["w0 was slow"]


def test_the_timeline_has_the_spans_of_the_steps(runs: Path) -> None:
    timeline = charts_of(sections_of(page_of(runs, store_run(runs).id))["runs"])["timeline"]
    first = next(view for view in timeline["views"] if view["name"] == "first steps")
    spans = [first["spans"][at : at + 5] for at in range(0, len(first["spans"]), 5)]
    compute = [span for span in spans if timeline["phases"][span[1]] == "compute" and span[0] == 0]
    assert [span[4] for span in compute] == list(range(len(compute)))
    assert {span[3] for span in compute} == {6_000}  # In microseconds.


def test_a_sweep_has_curves_over_workers_and_batches(runs: Path, sweep: list[RunPaths]) -> None:
    charts = charts_of(sections_of(page_of(runs, "sweep"))["scaling"])
    throughput, speed_up = charts["scaling"]["views"]
    assert [point[0] for point in throughput["series"][0]["points"]] == [1, 2, 3]
    # Every worker of these runs is as fast as one alone.
    assert [point[1] for point in speed_up["series"][0]["points"]] == pytest.approx([1, 2, 3], rel=0.01)
    assert speed_up["series"][-1]["ideal"]
    assert [point[0] for point in charts["batches"]["views"][0]["series"][0]["points"]] == [50, 200]


def test_what_the_terminal_says_about_a_comparison_is_in_the_page(
    runs: Path, sweep: list[RunPaths], capsys: pytest.CaptureFixture[str]
) -> None:
    sections = sections_of(page_of(runs, "sweep"))
    assert run_command(["compare", "sweep", "--runs", str(runs)]) == 0
    terminal = " ".join(capsys.readouterr().out.split())
    (notes,) = sections["notes"]["blocks"]
    assert notes["items"]
    assert all(note in terminal for note in notes["items"])
    in_words = [row[-1] for row in charts_of(sections["baseline"])["baseline"]["rows"]]
    assert any(text.partition(" (")[0] in terminal for text in in_words)
    assert charts_of(sections["sync-async"])["sync-async"]["rows"][0][1] == "synchronous"
    assert "n times the examples" in sections["sync-async"]["blocks"][0]["text"]


def test_without_a_target_there_are_no_empty_columns_about_it(runs: Path) -> None:
    for strategy in ("ps-sync", "ps-async"):
        result = store_run(runs, name="plain", strategy=strategy).result
        result.write_text(result.read_text().replace("loss=0.3", "seconds=3"))
    table = charts_of(sections_of(page_of(runs, "plain"))["sync-async"])["sync-async"]
    assert not [column for column in table["columns"] if "target" in str(column)]
    assert table["title"] == "Updates of each configuration"


def test_a_bottleneck_says_why(runs: Path) -> None:
    (why,) = sections_of(page_of(runs, store_run(runs).id))["bottlenecks"]["blocks"]
    assert why["account"][0]["cause"] == why["cause"] == "compute"
    assert sum(part["share"] for part in why["account"]) == pytest.approx(1, abs=0.01)
    assert why["account"][0]["meaning"] == MEANINGS["compute"]
    assert why["evidence"]
    assert any("25 %" in line for line in why["thresholds"])
    assert any(remedy.get("command", "").startswith("paceline run ") for remedy in why["remedies"])


def test_every_cause_with_a_name_has_a_meaning() -> None:
    assert CAUSES.keys() <= MEANINGS.keys()


def test_the_words_of_the_glossary_are_those_of_the_documentation() -> None:
    headings = re.findall(r"^## (.+)$", (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert GLOSSARY.keys() <= {*headings, "Batch"}


def test_the_browser_runs_only_the_script_of_the_page_and_loads_nothing(runs: Path) -> None:
    page = page_of(runs, store_run(runs).id)
    policy = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[0].replace("&#x27;", "'")
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page.replace(script, ""))


def test_names_are_data_and_never_markup(runs: Path) -> None:
    paths = store_run(runs, data=NASTY, incident=NASTY, end=("failed", NASTY))
    page = page_of(runs, paths.id)
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    marks = charts_of(sections_of(page)["runs"])["hosts"]["marks"]
    assert marks[0]["text"] == NASTY
    assert f"<title>{NASTY}" not in offline_html(NASTY, {})


def test_the_scripts_of_the_page_have_no_way_to_make_markup_of_text() -> None:
    own = assets.script().partition("window.Paceline =")[2]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", own)


def test_the_style_sheet_has_the_colours_of_the_terminal() -> None:
    for phase in PHASE_COLOURS:
        assert f"--phase-{phase}:" in assets.stylesheet()


@pytest.mark.parametrize("end", [("failed", "w1 died"), ("diverged", "loss is nan"), ("aborted", "interrupted"), None])
def test_failed_runs_are_reported(runs: Path, end: tuple[str, str | None] | None) -> None:
    """None is a run whose controller was killed."""
    page = page_of(runs, store_run(runs, end=end).id)
    assert data_of(page)["problems"] == ["1 run did not succeed."]
    assert (end[1] if end else "the controller was killed") in page  # type: ignore[operator]
    assert "timeline" in charts_of(sections_of(page)["runs"])


def test_a_run_without_steps_has_no_charts(runs: Path) -> None:
    page = page_of(runs, store_run(runs, steps=0, end=("failed", "no memory")).id)
    assert "runs" not in sections_of(page)
    assert "no step was recorded" in page


def test_runs_without_examples_have_no_examples_per_second(runs: Path) -> None:
    paths = store_run(runs, workload="matmul", size="colocated", strategy="allreduce", layout="w w")
    report = build("made", [paths])
    assert "updates/s" in {row.goal for row in report.best_configurations}
    assert "examples/s" not in {row.goal for row in report.best_configurations}


def test_of_many_runs_the_most_informative_have_charts(runs: Path, sweep: list[RunPaths]) -> None:
    report = build("sweep", sweep)
    selected = select_runs(group_repeats([result_of(paths) for paths in sweep]), report.best_configurations)
    assert len(selected) == MOST_RUNS
    whys = " ".join(one.why for one in selected)
    assert all(why in whys for why in ("most examples/s", "slowest", "median throughput"))
    assert "Charts of 8 of 24 runs" in page_of(runs, "sweep")
