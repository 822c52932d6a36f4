"""What the controller and a link probe, which measures the network links between hosts, send to each other."""

import msgspec

SEND_S = 0.5
"""For how long each host sends, in seconds."""


class LinkOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What the link probe of one host is to do."""

    host: str
    address: str
    ring: tuple[str, ...]
    """All hosts, in the order in which they send."""
    token: str
    """A secret that only the hosts of this run know; connections without it are closed."""


class LinkRate(msgspec.Struct, frozen=True, kw_only=True):
    """The rate at which data arrived from the previous host in the ring."""

    sender: str
    receiver: str
    mb_s: float
