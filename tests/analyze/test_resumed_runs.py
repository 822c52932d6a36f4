"""Values per step of a resumed run, which counts the steps of the run that it resumes but measured only its own."""

from pathlib import Path

import msgspec
import polars as pl
import pytest

from paceline.analyze.bottleneck.collect_facts import _arithmetic_s
from paceline.analyze.summary import summarize
from paceline.store.run import StoredRun
from report.stored import result_of, store_run


def test_evidence_is_per_step_of_the_run_itself(tmp_path: Path) -> None:
    whole = result_of(store_run(tmp_path / "whole", strategy="ps-sync"))
    paths = store_run(tmp_path / "resumed", strategy="ps-sync", resumed_update=213)
    resumed = result_of(paths)
    assert [(worker.steps, worker.own_steps) for worker in resumed.workers] == [(513, 300), (513, 300)]
    assert (resumed.updates, resumed.updates_before) == (513, 213)
    # The commands of the remedies name the directory of the runs.
    assert msgspec.structs.replace(resumed.verdict, remedy=[]) == msgspec.structs.replace(whole.verdict, remedy=[])
    assert resumed.updates_per_s == whole.updates_per_s
    assert resumed.examples_per_s == whole.examples_per_s


def test_arithmetic_is_weighted_by_the_steps_of_the_run_itself(tmp_path: Path) -> None:
    stored = StoredRun(store_run(tmp_path, strategy="ps-sync", resumed_update=1000))
    for event, steps in zip([e for e in stored.events if e["event"] == "finished"], (1100, 1300), strict=True):
        event |= {"operations_per_cpu_s": 1e9, "steps": steps}
    operations = stored.header.operations_per_example
    assert operations
    per_thread_s = operations * stored.header.spec.batch / 1e9
    expected = (100 * per_thread_s / 16 + 300 * per_thread_s / 2) / 400
    assert _arithmetic_s(stored, {"w0": 16, "w1": 2}) == pytest.approx(expected)


def test_examples_per_second_of_batches_of_different_sizes_are_those_of_the_run_itself(tmp_path: Path) -> None:
    paths = store_run(tmp_path, strategy="ps-sync", resumed_update=100)
    stored = StoredRun(paths)
    batch = stored.header.spec.batch
    for event in stored.events:
        if event["event"] == "finished":
            event["examples"] = 400 * batch - 50  # The last batch of this run was smaller by 50 examples.
    result = summarize(stored)
    own = stored.collect(stored.scan_steps().filter(pl.col("kind") == "step")).height * batch - 100
    assert result.examples == 800 * batch - 100
    assert result.examples_per_s == pytest.approx(own / result.train_s, rel=1e-3)
