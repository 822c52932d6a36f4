"""What the controller and a link probe, which measures the network links between hosts, send to each other."""

from typing import Literal

import msgspec

from paceline.messages.framing import Message
from paceline.ports import PortRange

LinkProperty = Literal["reach", "rtt", "rate"]
"""Whether a host can be reached, its round-trip time, or the rate at which data arrives there."""


class LinkOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The first message to the link probe of a host."""

    host: str
    address: str
    ports: PortRange | None = None
    """The ports on which it may listen; None: any."""
    token: str
    """A secret that only the probes of this run know; connections without it are closed."""


class MeasureLinks(Message, frozen=True):
    """Measure the links from this host to some others, all at the same time. The answer is LinksMeasured."""

    receivers: tuple[str, ...]
    what: LinkProperty
    seconds: float = 0.0
    """For how long to send, to measure the rate."""


class LinkMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """The link from the host of a probe to another host; only what was asked for is given."""

    receiver: str
    rtt_s: float | None = None
    """Median round-trip time of small messages over one TCP connection."""
    rtt_min_s: float | None = None
    mb_s: float | None = None
    error: str | None = None
    """Why it could not be measured, e.g. connection refused."""


class LinksMeasured(Message, frozen=True):
    """One measurement per receiver, in the order of the request."""

    measurements: tuple[LinkMeasurement, ...]
