"""Writes runs to MLflow, each with all its hosts and workers as one run of MLflow."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from paceline.errors import DataError, SpecError, message_of, printable
from paceline.exports.series import Point, final_values, parameters, points
from paceline.store.result import Result
from paceline.store.run import StoredRun

_BATCH = 1_000
"""Metrics in one request: MLflow's own limit."""
_MOST_CHARACTERS = 6_000
"""Of the value of a parameter: MLflow's own limit."""
_DIRECTORY = "mlruns"
_STATUS = {"ok": "FINISHED", "failed": "FAILED", "diverged": "FAILED", "aborted": "KILLED"}


def write_mlflow(runs: Sequence[tuple[StoredRun, Result]], out: str | None, project: str) -> list[str]:
    """Write the runs to a tracking server or directory; returns a line about each."""
    client = _client(out)
    try:
        experiment = client.get_experiment_by_name(project)
        experiment_id = experiment.experiment_id if experiment else client.create_experiment(project)
        return [_write_run(client, experiment_id, stored, result) for stored, result in runs]
    except (DataError, SpecError):
        raise
    except Exception as error:
        raise DataError(f"MLflow refused the export: {type(error).__name__}: {message_of(error)}") from error


def _client(out: str | None) -> Any:
    try:
        from mlflow import MlflowClient
    except ImportError:
        raise SpecError("--format mlflow needs MLflow: pip install 'paceline[mlflow]'") from None
    uri = out or os.environ.get("MLFLOW_TRACKING_URI") or _DIRECTORY
    if "://" not in uri and not uri.startswith(("file:", "sqlite:")):
        uri = Path(uri).absolute().as_uri()
    if uri.startswith("file:"):
        # MLflow writes to a directory only if the user wants it, which naming one says.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    try:
        return MlflowClient(tracking_uri=uri)
    except Exception as error:
        raise SpecError(f"--out {uri} is no address that MLflow can use: {message_of(error)}") from error


def _write_run(client: Any, experiment: str, stored: StoredRun, result: Result) -> str:
    from mlflow.entities import Param, RunTag

    started_ms = _started_ms(result)
    created = client.create_run(experiment, start_time=started_ms, run_name=result.run)
    run_id = created.info.run_id
    tags = {"status": result.status, "bottleneck": result.verdict.cause, "bottleneck_where": result.verdict.where}
    tags |= {"paceline_run": result.run, "reason": result.reason or ""}
    values = {name: printable(str(value))[:_MOST_CHARACTERS] for name, value in parameters(result).items()}
    client.log_batch(
        run_id,
        params=[Param(name, value) for name, value in values.items()],
        tags=[RunTag(name, printable(value)) for name, value in tags.items() if value],
    )
    _log_metrics(client, run_id, points(stored, result), final_values(result), started_ms, result)
    for path in (stored.paths.result, stored.paths.spec):
        if path.is_file():
            client.log_artifact(run_id, str(path))
    client.set_terminated(run_id, _STATUS[result.status], end_time=started_ms + round(result.total_s * 1000))
    return f"{result.run}: run {run_id} of MLflow"


def _log_metrics(
    client: Any, run_id: str, series: Sequence[Point], final: dict[str, float], started_ms: int, result: Result
) -> None:
    from mlflow.entities import Metric

    offset_s = result.first_step_s or 0.0
    metrics = [
        # The step of a value is its update; samples of hosts have none and count in milliseconds.
        Metric(
            name,
            value,
            started_ms + round((offset_s + point.seconds) * 1000),
            point.update if point.update is not None else round(point.seconds * 1000),
        )
        for point in series
        for name, value in point.values.items()
    ]
    end_ms = started_ms + round(result.total_s * 1000)
    metrics += [Metric(name, value, end_ms, result.updates) for name, value in final.items()]
    for start in range(0, len(metrics), _BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + _BATCH])


def _started_ms(result: Result) -> int:
    try:
        return round(datetime.fromisoformat(result.started_at).timestamp() * 1000)
    except ValueError:
        return 0
