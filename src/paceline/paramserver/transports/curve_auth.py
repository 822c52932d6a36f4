"""CURVE encryption and authentication of the parameter servers' ZeroMQ sockets, with keys made for one run."""

import zmq
from zmq.auth.thread import ThreadAuthenticator

from paceline.plan.roles import SERVER, WORKER
from paceline.train.context import Job

SERVER_PUBLIC = "curve-server-public"
SERVER_SECRET = "curve-server-secret"
CLIENT_PUBLIC = "curve-client-public"
CLIENT_SECRET = "curve-client-secret"
_DOMAIN = "paceline"
"""The ZAP domain: ZeroMQ's name for the set of sockets that one authenticator is responsible for."""


def new_keys() -> dict[str, dict[str, str]]:
    """Secrets of the servers and of the workers of one run, by role."""
    server_public, server_secret = (key.decode() for key in zmq.curve_keypair())
    client_public, client_secret = (key.decode() for key in zmq.curve_keypair())
    servers = {SERVER_PUBLIC: server_public, SERVER_SECRET: server_secret, CLIENT_PUBLIC: client_public}
    workers = {SERVER_PUBLIC: server_public, CLIENT_PUBLIC: client_public, CLIENT_SECRET: client_secret}
    return {SERVER: servers, WORKER: workers}


class _SingleKey:
    """A credentials provider that accepts one client key: all workers of a run use the same one."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def callback(self, domain: str, key: bytes) -> bool:
        return key == self._key


def require_client_key(
    context: "zmq.Context[zmq.Socket[bytes]]", socket: "zmq.Socket[bytes]", job: Job
) -> ThreadAuthenticator:
    """Accept only this run's workers on a server's socket; the caller has to stop the authenticator at the end."""
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    provider = _SingleKey(job.secrets[CLIENT_PUBLIC].encode())
    authenticator.configure_curve_callback(domain=_DOMAIN, credentials_provider=provider)
    socket.curve_server = True
    socket.curve_secretkey = job.secrets[SERVER_SECRET].encode()
    socket.curve_publickey = job.secrets[SERVER_PUBLIC].encode()
    socket.zap_domain = _DOMAIN.encode()
    return authenticator


def set_client_keys(socket: "zmq.Socket[bytes]", job: Job) -> None:
    """Give a worker's socket the run's client keys and the public key of the servers."""
    socket.curve_serverkey = job.secrets[SERVER_PUBLIC].encode()
    socket.curve_publickey = job.secrets[CLIENT_PUBLIC].encode()
    socket.curve_secretkey = job.secrets[CLIENT_SECRET].encode()
