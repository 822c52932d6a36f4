"""What is in the page, whatever became of the runs and whatever they are called."""

import json
import re
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from paceline.analyze.repeats import group_repeats
from paceline.cli.main import run_command
from paceline.report.build import build, draw
from paceline.report.html import json_script, tag
from paceline.report.selection import MOST_RUNS, choose
from paceline.store.paths import RunPaths
from report.stored import result_of, store_run

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&|*"


def page_of(runs: Path, *arguments: str) -> str:
    out = runs.parent / "page.html"
    assert run_command(["report", *arguments, "--runs", str(runs), "--out", str(out)]) == 0
    return out.read_text()


def without_plotly(page: str) -> str:
    """Ours alone: plotly's own script holds all kinds of markup in strings."""
    return re.sub(r"<script>/\*\*.*?</script>", "", page, flags=re.DOTALL)


def figures_in(page: str) -> dict[str, Any]:
    found = re.findall(r'<script type="application/json" id="([^"]+)-plot-data">(.*?)</script>', page, re.DOTALL)
    return {key: json.loads(text) for key, text in found}


def test_a_run_has_all_figures_it_has_data_for(runs: Path) -> None:
    paths = store_run(runs, incident="w0 was slow")
    page = page_of(runs, paths.id)
    keys = [key.removeprefix("run-0-") for key in figures_in(page)]
    assert keys == ["quality", "pace", "phases", "hosts", "shares", "timeline", "steps", "staleness"]
    assert [view["name"] for view in figures_in(page)["run-0-quality"]["views"]] == ["updates", "examples", "seconds"]
    assert "w0 was slow" in page


def test_a_sweep_has_curves_over_workers_and_batches(sweep: list[RunPaths]) -> None:
    gallery = draw(build("sweep", sweep), sweep)
    keys = [figure.key for figure in gallery.overview]
    assert keys == ["side-by-side", "phases-by-configuration", "scaling", "batches", "together"]
    scaling = gallery.overview[2]
    assert scaling.views[0].traces[0]["x"] == [1, 2, 3]
    speed_up = scaling.views[1].traces[0]
    assert speed_up["y"] == pytest.approx([1, 2, 3], rel=0.01)  # Every worker of these runs is as fast as one alone.
    assert gallery.overview[3].views[0].traces[0]["x"] == [50, 200]


def test_plotly_knows_every_property_of_every_figure(sweep: list[RunPaths]) -> None:
    """plotly's own types refuse a name or value that its script would ignore."""
    gallery = draw(build("sweep", sweep), sweep)
    for figure in [*gallery.overview, *gallery.runs[-1].figures]:
        for view in figure.views:
            go.Figure(data=list(view.traces), layout=view.layout)


def test_nothing_comes_from_elsewhere(runs: Path) -> None:
    page = without_plotly(page_of(runs, store_run(runs).id))
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert "default-src 'none'" in page


def test_names_are_text_and_never_markup(runs: Path) -> None:
    paths = store_run(runs, data=NASTY, incident=NASTY, end=("failed", NASTY))
    page = without_plotly(page_of(runs, paths.id))
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(2)&gt;" in page
    hosts = figures_in(page)["run-0-hosts"]["views"][0]["layout"]["annotations"]
    assert hosts[0]["text"].startswith("&lt;/script>".replace(">", "&gt;"))


def test_an_element_escapes_its_text_and_attributes() -> None:
    assert tag("b", "<i>", title='"x"') == '<b title="&quot;x&quot;">&lt;i&gt;</b>'
    assert "</script><" not in json_script("x", {"a": "</script><b>"}).removesuffix("</script>")


@pytest.mark.parametrize("end", [("failed", "w1 died"), ("diverged", "loss is nan"), ("aborted", "interrupted"), None])
def test_runs_that_did_not_end_well_are_told_of(runs: Path, end: tuple[str, str | None] | None) -> None:
    """None is a run whose controller was killed."""
    page = page_of(runs, store_run(runs, end=end).id)
    assert "1 run did not end well." in page
    assert (end[1] if end else "the controller was killed") in page  # type: ignore[operator]
    assert "run-0-timeline" in page


def test_a_run_that_never_made_a_step_breaks_nothing(runs: Path) -> None:
    page = page_of(runs, store_run(runs, steps=0, end=("failed", "no memory")).id)
    assert not figures_in(page)
    assert "no step was recorded" in page


def test_runs_without_examples_have_no_pace_of_them(runs: Path) -> None:
    paths = store_run(runs, workload="matmul", size="colocated", strategy="allreduce", layout="w w")
    report = build("made", [paths])
    assert "updates/s" in {answer.goal for answer in report.best_configurations}
    assert "examples/s" not in {answer.goal for answer in report.best_configurations}


def test_of_many_runs_the_telling_ones_are_drawn_and_the_page_says_so(runs: Path, sweep: list[RunPaths]) -> None:
    report = build("sweep", sweep)
    chosen = choose(group_repeats([result_of(paths) for paths in sweep]), report.best_configurations)
    assert len(chosen) == MOST_RUNS
    whys = " ".join(one.why for one in chosen)
    assert all(why in whys for why in ("most examples/s", "slowest", "median pace"))
    assert "Figures of 8 of 24 runs" in page_of(runs, "sweep")
