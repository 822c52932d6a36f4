"""The contents of the page, also for failed runs and for names that contain markup."""

import json
import re
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from paceline.analyze.repeats import group_repeats
from paceline.cli.main import run_command
from paceline.report.build import build, build_charts
from paceline.report.html import json_script, tag
from paceline.report.selection import MOST_RUNS, select_runs
from paceline.store.paths import RunPaths
from report.stored import result_of, store_run

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&|*"


def page_of(runs: Path, *arguments: str) -> str:
    out = runs.parent / "page.html"
    assert run_command(["report", *arguments, "--runs", str(runs), "--out", str(out)]) == 0
    return out.read_text()


def without_plotly(page: str) -> str:
    """The page without plotly's script, which contains markup in strings."""
    return re.sub(r"<script>/\*\*.*?</script>", "", page, flags=re.DOTALL)


def charts_in(page: str) -> dict[str, Any]:
    found = re.findall(r'<script type="application/json" id="([^"]+)-plot-data">(.*?)</script>', page, re.DOTALL)
    return {key: json.loads(text) for key, text in found}


def test_a_run_has_all_charts_for_which_it_has_data(runs: Path) -> None:
    paths = store_run(runs, incident="w0 was slow")
    page = page_of(runs, paths.id)
    keys = [key.removeprefix("run-0-") for key in charts_in(page)]
    assert keys == ["quality", "throughput", "phases", "hosts", "shares", "timeline", "steps", "staleness"]
    assert [view["name"] for view in charts_in(page)["run-0-quality"]["views"]] == ["updates", "examples", "seconds"]
    assert "w0 was slow" in page


def test_a_sweep_has_curves_over_workers_and_batches(sweep: list[RunPaths]) -> None:
    charts = build_charts(build("sweep", sweep), sweep)
    keys = [chart.key for chart in charts.overview]
    assert keys == ["metrics-by-configuration", "phases-by-configuration", "scaling", "batches", "test-curves"]
    scaling = charts.overview[2]
    assert scaling.views[0].traces[0]["x"] == [1, 2, 3]
    speed_up = scaling.views[1].traces[0]
    assert speed_up["y"] == pytest.approx([1, 2, 3], rel=0.01)  # Every worker of these runs is as fast as one alone.
    assert charts.overview[3].views[0].traces[0]["x"] == [50, 200]


def test_plotly_accepts_every_property_of_every_chart(sweep: list[RunPaths]) -> None:
    """plotly's Python types reject a name or value that its script would ignore."""
    charts = build_charts(build("sweep", sweep), sweep)
    for chart in [*charts.overview, *charts.runs[-1].charts]:
        for view in chart.views:
            go.Figure(data=list(view.traces), layout=view.layout)


def test_the_page_loads_nothing_from_elsewhere(runs: Path) -> None:
    page = without_plotly(page_of(runs, store_run(runs).id))
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert "default-src 'none'" in page


def test_names_are_escaped(runs: Path) -> None:
    paths = store_run(runs, data=NASTY, incident=NASTY, end=("failed", NASTY))
    page = without_plotly(page_of(runs, paths.id))
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(2)&gt;" in page
    hosts = charts_in(page)["run-0-hosts"]["views"][0]["layout"]["annotations"]
    assert hosts[0]["text"].startswith("&lt;/script>".replace(">", "&gt;"))


def test_an_element_escapes_its_text_and_attributes() -> None:
    assert tag("b", "<i>", title='"x"') == '<b title="&quot;x&quot;">&lt;i&gt;</b>'
    assert "</script><" not in json_script("x", {"a": "</script><b>"}).removesuffix("</script>")


@pytest.mark.parametrize("end", [("failed", "w1 died"), ("diverged", "loss is nan"), ("aborted", "interrupted"), None])
def test_failed_runs_are_reported(runs: Path, end: tuple[str, str | None] | None) -> None:
    """None is a run whose controller was killed."""
    page = page_of(runs, store_run(runs, end=end).id)
    assert "1 run did not succeed." in page
    assert (end[1] if end else "the controller was killed") in page  # type: ignore[operator]
    assert "run-0-timeline" in page


def test_a_run_without_steps_has_no_charts(runs: Path) -> None:
    page = page_of(runs, store_run(runs, steps=0, end=("failed", "no memory")).id)
    assert not charts_in(page)
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
