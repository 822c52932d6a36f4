"""Finds the workload and the data of a job on the host of a process."""

from dataclasses import replace

from paceline.data.batches import Examples
from paceline.data.registry import load
from paceline.files.store import FileStore
from paceline.train.context import Job
from paceline.workloads.registry import workload
from paceline.workloads.user_data import user_examples
from paceline.workloads.workload import Workload


def workload_name(job: Job, files: FileStore) -> str:
    """The name of the workload on this host: a user's file may be at another path than on the controller's machine."""
    return str(files.folder_of(job.code) / job.code[0].name) if job.code else job.workload


def workload_and_data(job: Job, files: FileStore) -> tuple[Workload, Examples]:
    """The workload of a job, and its examples from the files of this host."""
    spec = workload(workload_name(job, files), job.size)
    data = replace(job.data, paths=tuple(str(files.path(file)) for file in job.data_files))
    return spec, load(spec.dataset, data, job.examples) if spec.dataset else user_examples(spec)
