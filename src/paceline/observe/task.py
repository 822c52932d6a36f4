"""The task of one rank of a user's script: runs the script in this process, observes it, and reports how it ended."""

import atexit
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from paceline.observe import api
from paceline.observe.main_module import run_module, run_script
from paceline.observe.observer import Observer
from paceline.observe.passing_errors import may_pass
from paceline.observe.rank_environment import rank_environment
from paceline.observe.stop import StopTraining
from paceline.observe.user_error import script_error
from paceline.plan.roles import WORKER, task_names
from paceline.ports import hold_port
from paceline.train.context import Outcome, ScriptJob, TaskContext

_RENDEZVOUS = "rendezvous"


def run(context: TaskContext) -> Outcome:
    """Run the script to its end, or until a stop rule is met; ScriptError if it fails."""
    job, script = context.job, context.job.script
    assert script
    # Held until this process ends: the framework can bind the port all the same, other programs cannot.
    reservation = hold_port(job.address)
    own = f"{job.address}:{reservation.getsockname()[1]}"
    peers = context.rendezvous.exchange_addresses({_RENDEZVOUS: own})
    addresses = [peers[name][_RENDEZVOUS] for name in task_names(WORKER, job.workers)]
    os.environ.update(rank_environment(job, script, addresses))
    path = _enter_directory(context, script)
    observer = Observer(context)
    observer.install()
    api.connect(observer.clock)
    # Lines appear in the log as they are printed, and not when a buffer is full.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    try:
        _run(script, path)
        _end_like_python()
    except StopTraining:
        _end_like_python()
    except BaseException as error:
        if not (observer.stopping and may_pass(error)):
            # A rank that ends first takes its connections with it; then the others fail at the end of the run.
            observer.finish()
            raise script_error(error, script, path) from error
    finally:
        sys.stdout.flush()
    return observer.finish()


def _enter_directory(context: TaskContext, script: ScriptJob) -> Path:
    """Change to the working directory of the run; returns the path of the script on this host."""
    job, files = context.job, context.files
    if script.in_place or not job.code:
        # A remote host without files of the script has only the module, which is installed there.
        with suppress(FileNotFoundError):
            os.chdir(script.directory)
        return Path(script.path)
    assert files
    folder = files.folder_of(job.code)
    os.chdir(folder)
    return folder / job.code[0].name


def _run(script: ScriptJob, path: Path) -> None:
    try:
        if script.is_module:
            run_module(script.target, script.arguments)
        else:
            run_script(path, script.target, script.arguments)
    except SystemExit as error:
        if isinstance(error, StopTraining) or error.code in (None, 0):
            return
        raise


def _end_like_python() -> None:
    """What Python does between the end of the script and the end of the process, which follows without cleaning up."""
    with suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]
    with suppress(Exception):
        atexit._run_exitfuncs()
