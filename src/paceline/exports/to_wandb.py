"""Writes runs to Weights & Biases, each with all its hosts and workers as one run, without the network.

The files are those of W&B's offline mode; `wandb sync` uploads them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.errors import DataError, SpecError, message_of
from paceline.exports.series import final_values, parameters, points
from paceline.store.result import Result
from paceline.store.run import StoredRun

_SECONDS = "seconds"
"""The horizontal axis of all charts: seconds of training."""


def write_wandb(runs: Sequence[tuple[StoredRun, Result]], out: str | None, project: str) -> list[str]:
    """Write the runs to a directory; returns a line about each, with the command that uploads it."""
    try:
        import wandb
    except ImportError:
        raise SpecError("--format wandb needs Weights & Biases: pip install 'paceline[wandb]'") from None
    directory = Path(out or ".")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return [_write_run(wandb, stored, result, directory, project) for stored, result in runs]
    except OSError as error:
        raise DataError(f"cannot write to {directory}: {error.strerror}; choose another with --out") from None
    except (wandb.errors.Error, ValueError) as error:
        raise DataError(f"W&B refused the export: {type(error).__name__}: {message_of(error)}") from error


def _write_run(wandb: Any, stored: StoredRun, result: Result, directory: Path, project: str) -> str:
    settings = wandb.Settings(
        mode="offline", silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True,
        x_disable_meta=True, disable_job_creation=True,
    )  # fmt: skip
    tags = [result.engine, result.strategy, f"bottleneck: {result.verdict.cause}"[:64]]
    run = wandb.init(
        project=project,
        name=result.run,
        group=result.title,
        tags=tags,
        config=parameters(result),
        dir=str(directory),
        settings=settings,
        reinit="create_new",
    )
    try:
        run.define_metric(_SECONDS, hidden=True)
        run.define_metric("*", step_metric=_SECONDS)
        for point in points(stored, result):
            update = {} if point.update is None else {"update": point.update}
            run.log({_SECONDS: point.seconds, **update, **point.values})
        run.summary.update({**final_values(result), "status": result.status, "bottleneck": result.verdict.cause})
        folder = Path(run.dir).parent
    finally:
        run.finish(exit_code=0 if result.status == "ok" else 1)
    return f"{result.run}: {folder}; upload it with wandb sync {folder}"
