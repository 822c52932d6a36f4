"""Headers are written and read as the same value, and those of the version before are still readable."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.golden import without_additions
from paceline import pipeline
from paceline.analyze.load import load_result
from paceline.cli.main import run_command
from paceline.data.dataset import PreparedData
from paceline.errors import StoreError
from paceline.spec.load import experiment
from paceline.store.events import FinishedEvent
from paceline.store.header import ResumePoint, RunHeader
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from paceline.store.writer import RunWriter
from paceline.strategies.registry import strategies
from report.stored import store_run

OLD = Path(__file__).parent / "runs"
OLD_RUNS = sorted(directory.name for directory in OLD.iterdir())
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Runs that the version without a header number made."""
    return Path(shutil.copytree(OLD, tmp_path / "runs"))


def with_header(run: RunPaths, edit: Edit) -> StoredRun:
    """The run after an edit of the first line of its events."""
    first, *rest = run.events.read_text().splitlines()
    fields = json.loads(first)
    edit(fields)
    run.events.write_text("\n".join([json.dumps(fields), *rest]))
    return StoredRun(run)


def test_a_header_is_read_as_it_was_written(tmp_path: Path) -> None:
    fields = {
        "workload": "logreg", "strategy": "ps-async", "layout": "pw w", "stop": ["steps=1000", "loss=0.3"],
        "fault": "kill w1 at step 500", "lr": 0.25,
    }  # fmt: skip
    (plan,) = pipeline.plan(experiment(fields))
    start = ResumePoint(checkpoint="c", update=7, steps={"w0": 4}, trained_s=1.5, run="before-1")
    data = PreparedData(paths=(), source="drawn", synthetic=True)
    header = pipeline.header_of(plan, data, start, clock_zero_ns=123)
    writer = RunWriter(tmp_path / "runs", "made", plan)
    writer.write_header(header)
    writer.close()
    writer.release()
    assert StoredRun(writer.paths).header == header
    assert (header.strategy.name, header.engine.name, header.host_kind.name) == ("ps-async", "torch", "local")
    assert [strategy.name for strategy in header.alternatives] == ["ps-sync", "diloco"]


def test_a_strategy_that_the_workload_refuses_is_no_alternative() -> None:
    (plan,) = pipeline.plan(experiment({"workload": "matmul", "strategy": "allreduce", "stop": "steps=1"}))
    data = PreparedData(paths=(), source="none", synthetic=True)
    assert pipeline.header_of(plan, data, ResumePoint(), clock_zero_ns=0).alternatives == ()


@pytest.mark.parametrize("name", OLD_RUNS)
def test_a_header_without_a_version_is_upgraded(old: Path, name: str) -> None:
    paths = RunPaths(old / name)
    first = json.loads(paths.events.read_text().splitlines()[0])
    assert "version" not in first
    header = StoredRun(paths).header
    assert header.version == RunHeader.__struct_defaults__[0] == 1
    assert header.strategy == strategies()[first["spec"]["strategy"]]
    assert header.strategy.synchronous == first["synchronous"]
    assert header.host_kind.shares_one_machine == first["one_machine"]
    assert header.engine.version == first["versions"][first["spec"]["engine"]]
    assert header.task_hosts == {place["task"]: place["host"] for place in first["places"]}
    assert list(map(str, header.spec.stop)) == first["spec"]["stop"]
    assert header.key == first["key"]


@pytest.mark.parametrize("name", OLD_RUNS)
def test_the_result_of_an_older_run_is_computed_again_as_it_was(old: Path, name: str) -> None:
    paths = RunPaths(old / name)
    written = json.loads(paths.result.read_bytes())
    paths.result.unlink()
    again = msgspec.to_builtins(load_result(paths))
    # Version 0 took `other_cores_mean` from the samples of an arbitrary host.
    changed = {"dir", "schema", "verdict", "other_cores_mean"}
    expected = {key: written[key] for key in written.keys() - changed}
    assert without_additions(again, expected) == expected
    # Not its share: that of startup was of another time than the other shares.
    assert again["verdict"]["cause"] == written["verdict"]["cause"]


def test_an_older_result_is_filled_with_facts_of_its_strategy_and_hosts(old: Path) -> None:
    async_run, sync_run = (load_result(RunPaths(old / name)) for name in OLD_RUNS)
    assert (async_run.strategy, async_run.synchronous) == ("ps-async", False)
    assert (sync_run.strategy, sync_run.synchronous) == ("allreduce", True)
    assert async_run.one_machine
    assert not async_run.single_worker


def test_the_sizes_of_shards_are_found_under_their_older_name(old: Path) -> None:
    chief = next(event for event in StoredRun(RunPaths(old / OLD_RUNS[0])).all(FinishedEvent) if event.shard_sizes)
    assert chief.shard_sizes == {"ps0": {"0.weight": 7840}, "ps1": {"0.bias": 10}}


def test_older_runs_are_shown_compared_and_reported(old: Path, tmp_path: Path) -> None:
    runs = ["--runs", str(old)]
    assert run_command(["ls", *runs]) == 0
    for verb in ("show", "compare", "report"):
        out = ["--out", str(tmp_path / "report.html")] if verb == "report" else []
        assert run_command([verb, *(OLD_RUNS[:1] if verb == "show" else OLD_RUNS), *runs, *out]) == 0


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda header: header.update(version=2), "made by a newer version of Paceline .*: update Paceline"),
        (lambda header: header.update(version="x"), "unreadable header"),
        (lambda header: header.update(version=-1), "unreadable header"),
        (lambda header: header.pop("spec"), "unreadable header"),
        (lambda header: header["spec"].update(stop=["never"]), "unreadable header .*stop rule 'never'"),
        (lambda header: header["strategy"].pop("synchronous"), "unreadable header .*synchronous"),
        (lambda header: header.update(event="other"), "has no header"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused_in_a_line(tmp_path: Path, edit: Edit, says: str) -> None:
    run = store_run(tmp_path / "runs", steps=5)
    with pytest.raises(StoreError, match=f"run {run.id} .*{says}") as refused:
        _ = with_header(run, edit).header
    assert "\n" not in str(refused.value)


def test_an_older_run_with_a_strategy_that_is_not_installed_is_refused_by_its_name(old: Path) -> None:
    stored = with_header(RunPaths(old / OLD_RUNS[0]), lambda header: header["spec"].update(strategy="gone"))
    with pytest.raises(StoreError, match="unknown strategy 'gone'"):
        _ = stored.header


def test_an_option_that_did_not_exist_has_its_default(tmp_path: Path) -> None:
    run = store_run(tmp_path / "runs", steps=5)
    assert with_header(run, lambda header: header["spec"].pop("restarts")).header.spec.restarts == 3
