"""Who may use the server: requests from this machine's own pages that carry the token."""

import secrets
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

import msgspec

_HOST_NAMES = ("127.0.0.1", "localhost", "::1")
"""Names that a request may use for this server. A port that ssh forwards may have another number."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""


class Tokens(msgspec.Struct, frozen=True):
    """`read` allows to look; `change`, which only exists if the user asked for it, also to rename and delete runs."""

    read: str
    change: str | None = None

    @classmethod
    def new(cls, *, allow_changes: bool = False) -> "Tokens":
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24) if allow_changes else None)

    @property
    def best(self) -> str:
        return self.change or self.read

    def allows_reading(self, token: str) -> bool:
        return _same(token, self.read) or self.allows_changes(token)

    def allows_changes(self, token: str) -> bool:
        return self.change is not None and _same(token, self.change)


def refusal(headers: Mapping[str, str]) -> tuple[HTTPStatus, str] | None:
    """Why a request is not answered, whatever it asks for and whatever its token; None if it may be.

    A web page of another site can send requests to this server, and can give its own name this machine's address.
    """
    host = headers.get("host", "")
    if _name(f"//{host}") not in _HOST_NAMES:
        return HTTPStatus.MISDIRECTED_REQUEST, "this server answers only to 127.0.0.1 and localhost"
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return HTTPStatus.FORBIDDEN, "requests from other sites are refused"
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return HTTPStatus.FORBIDDEN, "requests from other sites are refused"
    return None


def token_of(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """The token of a request: in its header, or in the address of a file to save."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else query.get("token", "")


def _same(token: str, expected: str) -> bool:
    return secrets.compare_digest(token.encode(), expected.encode())


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
