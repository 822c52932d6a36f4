"""The descriptor of the engine `echo`. Paceline loads it to plan a run, so it must not import a framework."""

import secrets

from paceline.engines.base import Engine, Secrets
from paceline.plan.roles import WORKER

TOKEN = "token"


def new_secrets() -> Secrets:
    """A token for each run, which only its workers are given."""
    return {WORKER: {TOKEN: secrets.token_hex(16)}}


DESCRIPTOR = Engine(
    summary="softmax regression in NumPy, without a framework",
    required_module="numpy",
    distributions=("numpy",),
    install_hint="pip install paceline-echo",
    strategies=frozenset({"single", "allreduce", "periodic-averaging"}),
    tasks={WORKER: "paceline_echo.worker:run"},
    secrets="paceline_echo.engine:new_secrets",
    listens="Of several workers, the first listens on its host's address and admits only workers of the run.",
    layers=frozenset({"Dense"}),
)
