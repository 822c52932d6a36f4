"""Whether a host can take part in a run: it must have the same software as the controller's machine."""

import platform

from paceline import messages
from paceline.engines.base import Engine
from paceline.versions import code_hash, installed_version


def reason_to_refuse(hello: messages.Hello, engine_name: str, engine: Engine, hosts: str) -> str | None:
    """Why the host cannot take part, in one line with a remedy; None if it can. `hosts` is what --hosts says."""
    if problem := software_problem(hello, hosts):
        return problem
    theirs, ours = hello.engines.get(engine_name), engine.version
    if theirs is None:
        return f"does not have the engine {engine_name}: {engine.install_hint} there, or {_prepare(hosts)}"
    if ours is not None and theirs != ours:
        same = f"install the same version there, or {_prepare(hosts)}"
        return f"has {engine_name} {theirs}, this machine has {ours}: {same}"
    return None


def software_problem(hello: messages.Hello, hosts: str) -> str | None:
    """Why no engine of the host can be used: it has another Python or another Paceline; None if it has the same."""
    own_python, own = platform.python_version(), installed_version(["paceline"])
    if _minor(hello.python) != _minor(own_python):
        same = f"use the same Python there, or {_prepare(hosts)}"
        return f"has Python {hello.python}, this machine has {own_python}: {same}"
    if hello.paceline != own:
        return f"has Paceline {hello.paceline or 'of an unknown version'}, this machine has {own}: {_prepare(hosts)}"
    if hello.code and hello.code != code_hash():
        return f"has Paceline {own} with other code than this machine (a development version?): {_prepare(hosts)}"
    return None


def explain_start_failure(detail: str, hosts: str) -> str:
    """Why an agent did not start, with the remedy if the host has no Paceline. `detail` is the last line of its log."""
    if "No module named" in detail and "paceline" in detail:
        return f"has no Paceline ({detail}): {_prepare(hosts)}"
    return detail


def _prepare(hosts: str) -> str:
    return f"run `paceline hosts prepare {hosts}`"


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
