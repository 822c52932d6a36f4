"""The address of a Ray cluster, as it follows `ray:` in --hosts."""

import os
import re

import msgspec

from paceline.errors import HostError

AUTO = "auto"
_ALLOWED = "write --hosts ray:auto, ray:HOST:PORT (the port of the head, e.g. 6379) or ray:ray://HOST:PORT (Ray Client)"
_CLIENT = "ray://"
_CLIENT_PORT = 10001
_HOST_AND_PORT = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")


class RayAddress(msgspec.Struct, frozen=True):
    text: str
    """What `ray.init` takes: `auto`, HOST:PORT or ray://HOST:PORT."""
    host: str = ""
    """The host that must accept connections; empty if Ray finds the cluster by itself."""
    port: int = 0


def parse_address(argument: str | None) -> RayAddress:
    """The address that a user gave; HostError, in one line, if it is none.

    Without an address, or with `auto`, the variable RAY_ADDRESS applies as for Ray's own commands.
    """
    text = (argument or AUTO).strip()
    if text == AUTO:
        text = os.environ.get("RAY_ADDRESS", "").strip() or AUTO
    if text == AUTO:
        return RayAddress(AUTO)
    by_client = text.startswith(_CLIENT)
    match = _HOST_AND_PORT.fullmatch(text.removeprefix(_CLIENT))
    if not match or match["host"].startswith("-") or not (match["port"] or by_client):
        raise HostError(f"'{text}' is not the address of a Ray cluster: {_ALLOWED}")
    port = int(match["port"] or _CLIENT_PORT)
    if not 1 <= port <= 65535:
        raise HostError(f"port {port} of '{text}' is out of range: use 1 to 65535")
    host = match["host"]
    return RayAddress(f"{_CLIENT if by_client else ''}{host}:{port}", host.strip("[]"), port)
