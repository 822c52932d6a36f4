"""Runs with a bottleneck that is created on purpose, so that the right finding is known."""

from pathlib import Path
from typing import Any

import msgspec

SLOW_READER = str(Path(__file__).with_name("slow_reader.py"))


class Case(msgspec.Struct, frozen=True):
    """A run and the bottleneck that the analysis must find in it."""

    name: str
    cause: str
    where: str
    """Text that must be part of `where` of the bottleneck."""
    spec: dict[str, Any]
    env: dict[str, str] = {}
    onset_s: float | None = None
    """When the bottleneck began, in seconds of training; None if it was there from the start."""


def case(name: str, cause: str, where: str, *, reader: str = "", onset_s: float | None = None, **spec: Any) -> Case:
    spec = {"workload": "logreg", "stop": "seconds=4", **spec}
    return Case(name, cause, where, spec, {"READER": reader} if reader else {}, onset_s)


NETNS: dict[str, Any] = {"hosts": "netns"}
CASES = [
    # A large model that uses all cores.
    case("compute-torch", "compute", "w0 on h1", workload="lenet", batch=256),
    case("compute-tensorflow", "compute", "w0 on h1", workload="autoencoder:large", engine="tensorflow", batch=256),
    case("compute-two-halves", "compute", " on h", workload="lenet", strategy="allreduce", layout="w w", batch=128,
         cpus="0.5", **NETNS),
    # Links that are slower than what the workers need.
    case("network-torch-async", "network", "h1", strategy="ps-async", layout="p w w", link="50mbit", **NETNS),
    case("network-torch-sync", "network", "h1", strategy="ps-sync", layout="p w w", link="20mbit", **NETNS),
    case("network-allreduce", "network", " link", workload="autoencoder:large", strategy="allreduce", layout="w w",
         link="50mbit", **NETNS),
    case("network-tensorflow", "network", "h1", engine="tensorflow", strategy="ps-async", layout="p w w",
         link="20mbit", **NETNS),
    # A parameter server with very little CPU.
    case("server-torch-async", "server", "ps0 on h1", strategy="ps-async", layout="p w w", cpus="0.1 - -", **NETNS),
    case("server-torch-sync", "server", "ps0 on h1", strategy="ps-sync", layout="p w w", cpus="0.05 - -", **NETNS),
    case("server-tensorflow", "server", "ps0 on h1", engine="tensorflow", strategy="ps-async", layout="p w w",
         cpus="0.1 - -", **NETNS),
    # One worker with very little CPU, and others that wait for it.
    case("straggler-torch-sync", "straggler", "w1 on h3", strategy="ps-sync", layout="p w w", cpus="- - 0.25", **NETNS),
    case("straggler-allreduce", "straggler", "w1 on h2", workload="lenet", strategy="allreduce", layout="w w",
         cpus="0.8 0.25", stop="seconds=8", **NETNS),
    case("straggler-tensorflow", "straggler", "w0 on h2", engine="tensorflow", strategy="ps-sync", layout="p w w",
         cpus="- 0.25 -", stop="seconds=6", **NETNS),
    # Each worker is late at random, none more often than the others.
    case("barrier-torch-sync", "barrier", "all workers", workload=SLOW_READER, strategy="ps-sync", layout="pw w w w",
         reader="random"),
    case("barrier-allreduce", "barrier", "all workers", workload=SLOW_READER, strategy="allreduce", layout="w w w w",
         reader="random"),
    # Examples take longer to read than to train on.
    case("input-torch", "input", "w0 on h1", workload=SLOW_READER, reader="steady"),
    case("input-tensorflow", "input", " on h", workload=SLOW_READER, engine="tensorflow", strategy="ps-async",
         layout="pw w", reader="steady"),
    # A batch of 1: the fixed cost of a step dominates.
    case("overhead-torch", "overhead", "w0 on h1", batch=1),
    case("overhead-tensorflow", "overhead", "w0 on h1", batch=1, engine="tensorflow"),
    # More tasks than cores.
    case("contention-one-core", "contention", "h1", workload="lenet", strategy="allreduce", layout="www", cpus="1",
         threads=1, **NETNS),
    case("contention-one-core-async", "contention", "h1", strategy="ps-async", layout="pwww", cpus="1", **NETNS),
    case("contention-machine", "contention", "the machine", workload="lenet", strategy="ps-async", layout="pw w w w w",
         threads=2),
    # So few steps that startup takes most of the time.
    case("startup-torch", "startup", "the whole run", stop="steps=5"),
    case("startup-tensorflow", "startup", "the whole run", engine="tensorflow", stop="steps=5"),
    # Asynchronous workers with unequal CPU; two servers of which one holds the large parameter.
    case("imbalance-torch", "imbalance", "w0 on h2", strategy="ps-async", layout="p w w", cpus="- - 0.1", **NETNS),
    case("imbalance-tensorflow", "imbalance", "w1 on h3", engine="tensorflow", strategy="ps-async", layout="p w w",
         cpus="- 0.1 -", **NETNS),
    case("imbalance-servers", "imbalance", "ps0 on h1", engine="tensorflow", strategy="ps-async", layout="p p w w",
         link="5mbit", stop="seconds=8", **NETNS),
    # Bottlenecks that begin in the middle of the training, or move from worker to worker.
    case("straggler-from-5s", "straggler", "w1 on h3", strategy="ps-sync", layout="p w w", stop="seconds=15",
         fault="slow h3 to 0.05 cpus at 5s", onset_s=5, **NETNS),
    case("network-from-5s", "network", "h1", strategy="ps-async", layout="p w w", stop="seconds=15",
         fault="limit h1 to 10mbit at 5s", onset_s=5, **NETNS),
    case("straggler-in-turn", "straggler", "in turn", workload="lenet", strategy="allreduce", layout="w w w",
         cpus="0.6", stop="seconds=19",
         fault=("slow h2 to 0.15 cpus for 5s at 1s", "slow h3 to 0.15 cpus for 5s at 7s",
                "slow h1 to 0.15 cpus for 5s at 13s"), **NETNS),
]  # fmt: skip
SPARK: dict[str, Any] = {"engine": "spark", "strategy": "bsp-sgd", "layout": "p w"}
SPARK_CASES = [
    # A batch of 1: the scheduler needs longer to start a task than the task to compute.
    case("scheduler-spark", "scheduler", "ps0 on h1", batch=1, stop="seconds=8", **SPARK),
    # 33.76 million weights, all of which the driver sends and adds up in every step.
    case("driver-spark", "driver", "ps0 on h1", workload="sparse-logreg:dense", stop="seconds=25", driver_memory="3g",
         executor_memory="2g", **SPARK),
    # One executor with very little CPU.
    case("straggler-spark", "straggler", "w1 on h3", stop="seconds=20", fault="slow h3 to 0.1 cpus at 1s",
         **{**SPARK, "layout": "p w w"}, **NETNS),
]  # fmt: skip
"""Runs on Spark. Each starts a cluster, which takes longer than the run.

No case has `gc` as its bottleneck yet. Measured with one executor on 2 cores, as shares of the workers' time:
G1 and a heap just above what MLlib needs (608 MiB): 3 %; the serial collector with a young generation of 2 MiB: 26 %;
a full collection of G1 every 50 ms, which the driver's JVM makes too: 39 %, with 45 % of contention for the cores.
"""
BY_NAME = {case.name: case for case in (*CASES, *SPARK_CASES)}
