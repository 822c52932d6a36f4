"""Compressed gradients and values between a worker and a server, without sockets."""

import msgspec
import numpy as np
import pytest

from paceline.paramserver.buckets import cut_buckets
from paceline.paramserver.compressed_transfer import CompressedServerTransfer, CompressedWorkerTransfer
from paceline.paramserver.wire import WireError
from paceline.spec.compression import Compression
from paceline.workloads.registry import workload
from paramserver.running_server import JOB

LENET = workload("lenet").model
assert LENET
MODEL = LENET
ALL = ["fp16", "int8", "topk:0.01", "powersgd:4"]


class Link:
    """A worker and the servers, each of which has a part of the values."""

    def __init__(self, text: str, servers: int = 2) -> None:
        compression = Compression.parse(text)
        self.worker = CompressedWorkerTransfer(msgspec.structs.replace(JOB, role="w"), MODEL.parameters, compression)
        self.values = MODEL.first(1)
        self.shards = []
        for buckets in cut_buckets(MODEL.size, servers):
            first, last = buckets[-1].in_model.start, buckets[0].in_model.stop
            transfer = CompressedServerTransfer(self.values[first:last], first, MODEL.parameters, compression)
            self.shards.append((transfer, buckets))

    def pull(self) -> None:
        for transfer, buckets in self.shards:
            for bucket in buckets:
                self.worker.store_pulled(bucket.in_model, transfer.pull_payload(b"w0", bucket.in_shard))

    def step(self, gradient: np.ndarray, lr: float = 0.1) -> None:
        self.worker.gradient[:] = gradient
        for transfer, buckets in self.shards:
            for bucket in buckets:
                payload = bytes(self.worker.push_payload(bucket.in_model))
                transfer.values[bucket.in_shard] -= lr * transfer.gradient(b"w0", bucket.in_shard, payload)
                self.worker.store_reply(bucket.in_model, bytes(transfer.reply_payload(b"w0", bucket.in_shard)))

    def server_view(self) -> np.ndarray:
        return np.concatenate([transfer._worker_values[b"w0"] for transfer, _ in self.shards])


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("servers", [1, 3])
def test_the_server_always_knows_which_values_the_worker_has(text: str, servers: int) -> None:
    link = Link(text, servers)
    link.pull()
    assert link.worker.values.tobytes() == link.values.tobytes()
    target = np.random.default_rng(3).normal(size=MODEL.size).astype(np.float32)
    for _ in range(20):
        link.step(link.worker.values - target)
        assert link.worker.values.tobytes() == link.server_view().tobytes()
    link.pull()  # A worker that was restarted, or the end of the run.
    assert link.worker.values.tobytes() == link.server_view().tobytes() == link.values.tobytes()


@pytest.mark.parametrize("text", ALL)
def test_descent_with_compressed_gradients_and_values_approaches_the_minimum(text: str) -> None:
    """f = |values - target|² / 2, whose gradient is values - target."""
    link = Link(text)
    link.pull()
    target = np.random.default_rng(3).normal(size=MODEL.size).astype(np.float32)
    start = float(np.linalg.norm(link.values - target))
    for _ in range(400):
        link.step(link.worker.values - target, lr=0.01)
    # Exact descent leaves 0.99 ** 400 = 1.8 % of the distance.
    assert np.linalg.norm(link.values - target) / start < 0.2


@pytest.mark.parametrize(("text", "fewer"), [("fp16", 2), ("int8", 3.9), ("topk:0.01", 49), ("powersgd:4", 10)])
def test_counted_bytes_are_those_of_the_payloads(text: str, fewer: float) -> None:
    link = Link(text, servers=1)
    link.pull()
    pulled = link.worker.exchanged.received
    assert pulled == 4 * MODEL.size
    link.step(np.ones(MODEL.size, np.float32))
    assert 4 * MODEL.size / link.worker.exchanged.sent >= fewer
    assert link.worker.exchanged.received - pulled == link.worker.exchanged.sent


def test_a_payload_of_another_size_is_refused() -> None:
    transfer, (bucket, *_) = Link("int8").shards[0]
    with pytest.raises(WireError, match="the payload has 3 bytes, the compressed bucket has"):
        transfer.gradient(b"w0", bucket.in_shard, b"abc")
