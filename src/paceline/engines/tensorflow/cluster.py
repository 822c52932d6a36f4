"""Servers, sessions and devices of the v1 runtime, set up for many small steps."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from paceline.engines.ports import held_port
from paceline.plan.roles import SERVER, WORKER, task_names
from paceline.train.context import TaskContext

tf1 = tf.compat.v1
_ADDRESS = "grpc"


def ps_device(index: int) -> str:
    return f"/job:ps/task:{index}/device:CPU:0"


def worker_device(index: int) -> str:
    return f"/job:worker/task:{index}/device:CPU:0"


def config(threads: int, worker: int | None = None) -> Any:
    """For a server, or for the session of one worker, which then sees only the servers and itself."""
    made = tf1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    # Idle threads that spin take the core from the tasks beside them.
    made.experimental.disable_thread_spinning = True
    if worker is not None:
        made.device_filters.extend(["/job:ps", f"/job:worker/task:{worker}"])
    return made


def meet(context: TaskContext) -> Mapping[str, list[str]]:
    """Everyone's address by job; this task's port is free for the framework to bind when it returns."""
    job = context.job
    holder = held_port(job.address)
    addresses = context.rendezvous.exchange_addresses({_ADDRESS: f"{job.address}:{holder.getsockname()[1]}"})
    holder.close()
    jobs = {"worker": [addresses[task][_ADDRESS] for task in task_names(WORKER, job.workers)]}
    if job.servers:
        jobs["ps"] = [addresses[task][_ADDRESS] for task in task_names(SERVER, job.servers)]
    return jobs


def start_server(context: TaskContext) -> Any:
    """Join the v1 cluster. The framework binds all interfaces and asks nobody who they are."""
    job = context.job
    cluster = tf1.train.ClusterSpec(meet(context))
    name = "ps" if job.role == SERVER else "worker"
    return tf1.train.Server(cluster, job_name=name, task_index=job.index, config=config(job.threads))
