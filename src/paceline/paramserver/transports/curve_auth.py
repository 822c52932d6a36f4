"""CURVE on the parameter servers' sockets: keys made for the run, and a list of who may connect."""

import zmq
from zmq.auth.thread import ThreadAuthenticator

from paceline.train.context import Job

SERVER_PUBLIC = "curve-server-public"
SERVER_SECRET = "curve-server-secret"
CLIENT_PUBLIC = "curve-client-public"
CLIENT_SECRET = "curve-client-secret"
_DOMAIN = "paceline"


def new_keys() -> tuple[dict[str, str], dict[str, str]]:
    """Secrets of the servers and of the workers of one run."""
    server_public, server_secret = (key.decode() for key in zmq.curve_keypair())
    client_public, client_secret = (key.decode() for key in zmq.curve_keypair())
    servers = {SERVER_PUBLIC: server_public, SERVER_SECRET: server_secret, CLIENT_PUBLIC: client_public}
    workers = {SERVER_PUBLIC: server_public, CLIENT_PUBLIC: client_public, CLIENT_SECRET: client_secret}
    return servers, workers


class _Allowed:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def callback(self, domain: str, key: bytes) -> bool:
        return key == self._key


def guard(context: "zmq.Context[zmq.Socket[bytes]]", socket: "zmq.Socket[bytes]", job: Job) -> ThreadAuthenticator:
    """Let only this run's workers in; the authenticator must be stopped at the end."""
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    allowed = _Allowed(job.secrets[CLIENT_PUBLIC].encode())
    authenticator.configure_curve_callback(domain=_DOMAIN, credentials_provider=allowed)
    socket.curve_server = True
    socket.curve_secretkey = job.secrets[SERVER_SECRET].encode()
    socket.curve_publickey = job.secrets[SERVER_PUBLIC].encode()
    socket.zap_domain = _DOMAIN.encode()
    return authenticator


def identify(socket: "zmq.Socket[bytes]", job: Job) -> None:
    socket.curve_serverkey = job.secrets[SERVER_PUBLIC].encode()
    socket.curve_publickey = job.secrets[CLIENT_PUBLIC].encode()
    socket.curve_secretkey = job.secrets[CLIENT_SECRET].encode()
