"""What the tasks of a user's script get in addition to what every task gets: its files, ranks and environment."""

import os
from pathlib import Path

from paceline.files.reference import FileRef, reference
from paceline.plan.layout import TaskPlace
from paceline.plan.place import RunPlan
from paceline.spec.script import arguments, is_module, target
from paceline.train.context import Job, ScriptJob
from paceline.workloads.script import script_files, script_path
from paceline.workloads.user_workload import code_files

THREADS_VARIABLE = "OMP_NUM_THREADS"


def code_references(plan: RunPlan) -> tuple[FileRef, ...]:
    """The files of the user's workload or script, which hosts that do not share this file system are sent."""
    files = script_files(plan.spec.script) if plan.is_script else code_files(plan.spec.workload)
    return tuple(reference(path, name) for name, path in files)


def script_job(plan: RunPlan, place: TaskPlace, attempt: int) -> ScriptJob | None:
    """The part of a task's job that is about the user's script; None if the run has none."""
    if not plan.is_script:
        return None
    spec, hosts = plan.spec, plan.layout.hosts
    beside = [other.task for other in plan.workers if other.host == place.host]
    return ScriptJob(
        target=target(spec.script),
        is_module=is_module(spec.script),
        path=str(script_path(spec.script)),
        arguments=arguments(spec.script, spec.param),
        directory=str(Path.cwd()),
        in_place=plan.shares_filesystem,
        local_rank=beside.index(place.task),
        local_ranks=len(beside),
        node=hosts.index(place.host),
        nodes=len(hosts),
        stack_hz=spec.stack_hz if spec.record else 0.0,
        attempt=attempt,
        max_restarts=spec.restarts if spec.on_failure == "restart" else 0,
    )


def script_environment(job: Job, *, threads_given: bool) -> dict[str, str]:
    """Variables that must be set before a script's process begins, because libraries read them when they are loaded."""
    if job.script is None:
        return {}
    # As with torchrun, the user's own variable counts, unless the option says otherwise.
    threads = str(job.threads) if threads_given else os.environ.get(THREADS_VARIABLE, str(job.threads))
    return {THREADS_VARIABLE: threads}
