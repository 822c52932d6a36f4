"""The cluster of TensorFlow's v1 runtime: its addresses, device names, servers and session configuration."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from paceline.engines.tensorflow.request_numbers import use_one_generator
from paceline.plan.roles import SERVER, WORKER, task_names
from paceline.ports import reserve_port
from paceline.train.context import TaskContext

tf1 = tf.compat.v1
_ADDRESS_KEY = "grpc"
"""The key of the gRPC address among the addresses that a task announces to its peers."""


def ps_device(index: int) -> str:
    return f"/job:ps/task:{index}/device:CPU:0"


def worker_device(index: int) -> str:
    return f"/job:worker/task:{index}/device:CPU:0"


def session_config(threads: int, worker: int | None = None) -> Any:
    """The configuration of a server or a session. The session of worker number `worker` contacts only the parameter
    servers and its own task, so it does not depend on other workers."""
    config = tf1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    # An idle thread that spins would take a core away from the other tasks on the host.
    config.experimental.disable_thread_spinning = True
    if worker is not None:
        config.device_filters.extend(["/job:ps", f"/job:worker/task:{worker}"])
    return config


def cluster_addresses(context: TaskContext) -> Mapping[str, list[str]]:
    """The addresses of all tasks, by TensorFlow job name. TensorFlow must bind this task's port right afterwards: it is
    reserved until this function returns."""
    job = context.job
    reservation = reserve_port(job.address, job.ports)
    addresses = context.rendezvous.exchange_addresses({_ADDRESS_KEY: f"{job.address}:{reservation.getsockname()[1]}"})
    reservation.close()
    jobs = {"worker": [addresses[task][_ADDRESS_KEY] for task in task_names(WORKER, job.workers)]}
    if job.servers:
        jobs["ps"] = [addresses[task][_ADDRESS_KEY] for task in task_names(SERVER, job.servers)]
    return jobs


def start_server(context: TaskContext) -> Any:
    """Start this task's server in the v1 cluster. TensorFlow listens on all interfaces, without authentication."""
    use_one_generator()
    job = context.job
    cluster = tf1.train.ClusterSpec(cluster_addresses(context))
    name = "ps" if job.role == SERVER else "worker"
    return tf1.train.Server(cluster, job_name=name, task_index=job.index, config=session_config(job.threads))
