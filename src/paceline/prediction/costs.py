"""What a step and its exchange cost, in CPU seconds and bytes. CPU seconds are what does not depend on a CPU limit, on
waiting for a core or on the link, so they are what carries over from one configuration to another."""

import math

import msgspec

HEADER_BYTES, _CONTENT_BYTES = 66, 1448
"""Headers of Ethernet, IP and TCP in a full packet, and its content."""
WIRE_OVERHEAD = (HEADER_BYTES + _CONTENT_BYTES) / _CONTENT_BYTES
"""Bytes on the wire for each byte of content."""
_SEGMENT_BYTES = 30_000
"""What the kernel handles as one packet where nothing cuts it."""
_LARGEST_SEGMENT = 65_536
_BURST_S, _MIN_BURST_BYTES = 0.002, 10_000


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """The constants of one workload on one engine. Names ending in `_s` are CPU seconds unless they say otherwise."""

    step_s: float
    """Of the computation of a step, whatever its batch."""
    example_s: float
    """Of the computation for each example."""
    sent_bytes: float
    """What a worker sends in an exchange: its gradients."""
    received_bytes: float
    """What a worker receives in an exchange with servers: parameters."""
    repeated: float = 0.0
    """What passes the network besides, relative to these bytes: in the other direction, at the same time."""
    worker_message_s: float = 1e-4
    """Of a worker for one exchange with one server: a message out and one in."""
    worker_byte_s: float = 1e-9
    worker_sync_s: float = 0.0
    """Of a worker for each exchange in a synchronous strategy, in addition."""
    server_message_s: float = 2e-4
    """Of a server for one exchange with one worker."""
    server_byte_s: float = 1.5e-9
    server_sync_s: float = 0.0
    ring_step_s: float = 0.0
    """Of a worker for each step in which it takes part in a ring."""
    round_s: float = 1.2e-4
    """Of a worker for one round of a ring: a message out and one in."""
    ring_byte_s: float = 1e-9
    """Of a worker for each byte that it sends in a ring."""
    packet_s: float = 6e-6
    """Of each end for every packet, where the link's shaper cuts what the kernel sends."""
    upkeep: float = 0.0
    """Cores that a task uses even if it makes no steps."""
    limited: float = 1.0
    """Factor for all CPU time on hosts with a CPU limit, whose caches are cold after each pause."""
    crowded: float = 1.0
    """Factor for all CPU time while all cores of the machine are busy, which share caches and memory."""
    threaded: float = 1.0
    """Time of the computation of a step with several threads, relative to one thread. Their CPU time says little about
    it: threads that wait for each other also use it."""
    overlap: float = 0.0
    """Part of the CPU time for messages that other threads spend while the step goes on."""
    hop_s: float = 6e-5
    """Time, not CPU time, from the end of a transfer until the receiver handles it."""
    step_noise: float = 0.05
    """Standard deviation of the logarithm of a step's CPU time."""
    threads: float = 1.0
    """Cores that the computation of a step can use at once."""
    bucket_bytes: float = 4 * 2**20
    """Larger models are sent in pieces of this size while the backward pass still computes."""

    def compute_s(self, batch: int) -> float:
        return self.step_s + self.example_s * batch


def packets(size: float, link_bits_s: float | None) -> float:
    """Packets that both ends handle for a message of this size on a link of this rate.

    The kernel sends large segments, but a shaper cuts those that are larger than its burst into packets of the wire.
    """
    if link_bits_s is None:
        return size / _SEGMENT_BYTES
    burst = max(_MIN_BURST_BYTES, link_bits_s / 8 * _BURST_S)
    cut = min(size, _LARGEST_SEGMENT) > burst
    return size / _CONTENT_BYTES if cut else math.ceil(size / _SEGMENT_BYTES)


def crowding(busy_cores: float, cores: float) -> float:
    """How crowded a machine is: 0 if at most one core is busy, 1 if all are."""
    return min(1.0, max(0.0, busy_cores - 1) / (cores - 1)) if cores > 1 else 0.0
