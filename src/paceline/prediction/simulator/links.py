"""Simulated links: flows over the uplink of the sender and the downlink of the receiver.

Flows that share a link get unequal, random shares: TCP connections are equally fast only in the long run, and equal
shares make asynchronous workers faster than they are.
"""

import math
from random import Random
from typing import Any

_BURST_S, _MIN_BURST_BYTES = 0.002, 10_000
"""A shaped link passes a burst at once after it was idle: the bytes of this time, and at least this many."""
_UNLIMITED = 1e13


class Direction:
    """One direction of a host's link."""

    __slots__ = ("_burst", "_idle_since", "_tokens", "busy_s", "bytes", "flows", "rate")

    def __init__(self, rate: float | None) -> None:
        """`rate` in bytes/s; None is unlimited."""
        self.rate = rate
        self.flows: list[Flow] = []
        self._burst = 0.0 if rate is None else max(_MIN_BURST_BYTES, rate * _BURST_S)
        self._tokens, self._idle_since = self._burst, 0.0
        self.bytes = self.busy_s = 0.0

    def burst(self, now: float) -> float:
        """The bytes that a new flow may send at once."""
        if self.rate is None:
            return math.inf
        if self.flows:
            return 0.0
        return min(self._burst, self._tokens + (now - self._idle_since) * self.rate)

    def add(self, flow: "Flow", burst_used: float, now: float) -> None:
        if self.rate is not None and not self.flows:
            self._tokens = self.burst(now) - burst_used
        self.flows.append(flow)

    def remove(self, flow: "Flow", now: float) -> None:
        self.flows.remove(flow)
        if not self.flows:
            self._idle_since = now
            self._tokens = max(0.0, min(self._tokens, self._burst))


class Flow:
    """Bytes on their way between two hosts."""

    __slots__ = ("directions", "left", "process", "rate", "weight")

    def __init__(self, size: float, directions: tuple[Direction, Direction], weight: float, process: Any) -> None:
        self.left, self.directions, self.weight, self.process = size, directions, weight, process
        self.rate = 0.0


def flow_weight(rng: Random, spread: float) -> float:
    """The share of a flow relative to others, log-normal with this standard deviation."""
    return math.exp(rng.gauss(0.0, spread)) if spread else 1.0


def set_rates(flows: list[Flow]) -> None:
    """Give every flow its max-min share of its two directions, in proportion to its weight."""
    if len(flows) == 1:
        flow = flows[0]
        flow.rate = min(direction.rate or _UNLIMITED for direction in flow.directions)
        return
    left: dict[Direction, float] = {}
    for flow in flows:
        flow.rate = -1.0
        for direction in flow.directions:
            if direction.rate is not None:
                left[direction] = direction.rate
    while left:
        shares = {
            direction: capacity / weight
            for direction, capacity in left.items()
            if (weight := sum(flow.weight for flow in direction.flows if flow.rate < 0))
        }
        if not shares:
            break
        tightest = min(shares, key=lambda direction: shares[direction])
        for flow in tightest.flows:
            if flow.rate < 0:
                flow.rate = max(shares[tightest] * flow.weight, 1.0)
                for direction in flow.directions:
                    if direction in left:
                        left[direction] = max(0.0, left[direction] - flow.rate)
        del left[tightest]
    for flow in flows:
        if flow.rate < 0:
            flow.rate = _UNLIMITED
