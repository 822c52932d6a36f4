import json
from pathlib import Path
from typing import Any

import polars as pl

from paceline.analyze.training import training_start_s
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from paceline.store.tables import STEPS_SCHEMA


def start_of(folder: Path, *events: dict[str, Any]) -> float:
    """Of a run with these events, whose first step began at 4 s."""
    paths = RunPaths(folder)
    step = dict.fromkeys(STEPS_SCHEMA) | {"task": "w0", "kind": "step", "step": 0, "t_s": 4.0, "duration_s": 0.1}
    pl.DataFrame([step], schema=STEPS_SCHEMA).write_parquet(paths.steps)
    spec = {"workload": "logreg", "engine": "torch", "strategy": "ps-async", "hosts": "local"}
    tasks = (("w0", "w", 0), ("w1", "w", 1), ("w2", "w", 2), ("ps0", "ps", 0))
    places = [{"task": task, "role": role, "index": index, "host": "h1"} for task, role, index in tasks]
    header = {"event": "created", "t_s": 0.0, "spec": spec, "layout": "pwww", "places": places}
    lines = [header, *events]
    paths.events.write_text("\n".join(map(json.dumps, lines)))
    return training_start_s(StoredRun(paths))


def test_the_training_begins_when_the_first_worker_did(tmp_path: Path) -> None:
    go = {"event": "go", "t_s": 3.0}
    started = {"w0": 3.2, "w1": 3.1, "w2": None, "ps0": 3.05}
    rest = {"event": "finished", "t_s": 9.0, "steps": 5, "updates": 5, "ended_s": 8.0, "reached_s": None}
    done = [{**rest, "task": task, "started_s": at} for task, at in started.items()]
    assert start_of(tmp_path, go, *done) == 3.1
    assert start_of(tmp_path, go) == 3.0
    assert start_of(tmp_path) == 4.0
