"""Runs whose pace is set by something known, because it was made so."""

from pathlib import Path
from typing import Any

import msgspec

SLOW_READER = str(Path(__file__).with_name("slow_reader.py"))


class Case(msgspec.Struct, frozen=True):
    name: str
    cause: str
    where: str
    """What the verdict's place must contain."""
    spec: dict[str, Any]
    env: dict[str, str] = {}


def case(name: str, cause: str, where: str, *, reader: str = "", **spec: Any) -> Case:
    spec = {"workload": "logreg", "stop": "seconds=4", **spec}
    return Case(name, cause, where, spec, {"READER": reader} if reader else {})


BOX: dict[str, Any] = {"hosts": "netns"}
CASES = [
    # A large model on all the cores there are.
    case("compute-torch", "compute", "w0 on h1", workload="lenet", batch=256),
    case("compute-tensorflow", "compute", "w0 on h1", workload="autoencoder:large", engine="tensorflow", batch=256),
    case("compute-two-halves", "compute", " on h", workload="lenet", strategy="allreduce", layout="w w", batch=128,
         cpus="0.5", **BOX),
    # Links that carry less than the workers could use.
    case("network-torch-async", "network", "h1", strategy="ps-async", layout="p w w", link="50mbit", **BOX),
    case("network-torch-sync", "network", "h1", strategy="ps-sync", layout="p w w", link="20mbit", **BOX),
    case("network-allreduce", "network", " link", workload="autoencoder:large", strategy="allreduce", layout="w w",
         link="50mbit", **BOX),
    case("network-tensorflow", "network", "h1", engine="tensorflow", strategy="ps-async", layout="p w w",
         link="20mbit", **BOX),
    # A server that gets next to no CPU.
    case("server-torch-async", "server", "ps0 on h1", strategy="ps-async", layout="p w w", cpus="0.1 - -", **BOX),
    case("server-torch-sync", "server", "ps0 on h1", strategy="ps-sync", layout="p w w", cpus="0.05 - -", **BOX),
    case("server-tensorflow", "server", "ps0 on h1", engine="tensorflow", strategy="ps-async", layout="p w w",
         cpus="0.1 - -", **BOX),
    # One worker that gets next to no CPU, and others that must wait for it.
    case("straggler-torch-sync", "straggler", "w1 on h3", strategy="ps-sync", layout="p w w", cpus="- - 0.25", **BOX),
    case("straggler-allreduce", "straggler", "w1 on h2", workload="lenet", strategy="allreduce", layout="w w",
         cpus="0.8 0.25", stop="seconds=8", **BOX),
    case("straggler-tensorflow", "straggler", "w0 on h2", engine="tensorflow", strategy="ps-sync", layout="p w w",
         cpus="- 0.25 -", stop="seconds=6", **BOX),
    # Everyone is late now and then, nobody more than others.
    case("barrier-torch-sync", "barrier", "all workers", workload=SLOW_READER, strategy="ps-sync", layout="pw w w w",
         reader="now and then"),
    case("barrier-allreduce", "barrier", "all workers", workload=SLOW_READER, strategy="allreduce", layout="w w w w",
         reader="now and then"),
    # Examples that take longer to read than to learn from.
    case("input-torch", "input", "w0 on h1", workload=SLOW_READER, reader="steady"),
    case("input-tensorflow", "input", " on h", workload=SLOW_READER, engine="tensorflow", strategy="ps-async",
         layout="pw w", reader="steady"),
    # A batch of one.
    case("overhead-torch", "overhead", "w0 on h1", batch=1),
    case("overhead-tensorflow", "overhead", "w0 on h1", batch=1, engine="tensorflow"),
    # More tasks than cores.
    case("contention-one-core", "contention", "h1", workload="lenet", strategy="allreduce", layout="www", cpus="1",
         threads=1, **BOX),
    case("contention-one-core-async", "contention", "h1", strategy="ps-async", layout="pwww", cpus="1", **BOX),
    case("contention-machine", "contention", "the machine", workload="lenet", strategy="ps-async", layout="pw w w w w",
         threads=2),
    # Hardly any training at all.
    case("startup-torch", "startup", "the whole run", stop="steps=5"),
    case("startup-tensorflow", "startup", "the whole run", engine="tensorflow", stop="steps=5"),
    # Asynchronous workers of unequal strength; a parameter that one of two servers has all of.
    case("imbalance-torch", "imbalance", "w0 on h2", strategy="ps-async", layout="p w w", cpus="- - 0.1", **BOX),
    case("imbalance-tensorflow", "imbalance", "w1 on h3", engine="tensorflow", strategy="ps-async", layout="p w w",
         cpus="- 0.1 -", **BOX),
    case("imbalance-servers", "imbalance", "ps0 on h1", engine="tensorflow", strategy="ps-async", layout="p p w w",
         link="5mbit", stop="seconds=8", **BOX),
]  # fmt: skip
BY_NAME = {one.name: one for one in CASES}
