"""Fork servers from which the agents of one machine are started: they import the modules of agents and tasks once."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from paceline.forkserver.client import ForkServer, supported
from paceline.hosts.base import HostRequest, Preload

_MODULES = (
    "paceline.agent.__main__",
    "paceline.task.__main__",
    "paceline.task.link_probe",
    "paceline.data.registry",
    "paceline.workloads.user_workload",
)
"""What every agent and every task imports."""

_Key = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
"""Modules and environment variables of a preload: tasks that need the same ones can be forked from one server."""


class _KeptTemplates(NamedTuple):
    """Fork servers for the next run."""

    environment: Mapping[str, str]
    """Of this process when the first one was started: modules that are imported later may change it."""
    by_key: dict[_Key, ForkServer]


_kept: ContextVar[_KeptTemplates | None] = ContextVar("_kept", default=None)
"""None if fork servers are not kept after a run."""


@contextmanager
def keep_templates() -> Iterator[None]:
    """Keep the fork servers of runs in this context for the following runs, until its end."""
    if _kept.get():
        yield
        return
    kept = _KeptTemplates(dict(os.environ), {})
    token = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(token)
        for template in kept.by_key.values():
            template.close()


def prepare_template(preload: Preload) -> None:
    """Start the fork server for the next run with this preload, unless there is one; only if they are kept."""
    kept, key = _kept.get(), _key(preload)
    if kept and key not in kept.by_key and supported():
        kept.by_key[key] = _start(preload, kept.environment)


@contextmanager
def agent_template(requests: Sequence[HostRequest]) -> Iterator[ForkServer | None]:
    """A fork server with what the tasks of these hosts import; None if this system has no fork servers."""
    if not supported():
        yield None
        return
    preload = requests[0].preload  # All hosts of a run have the same engine.
    kept, key = _kept.get(), _key(preload)
    template = kept.by_key.pop(key, None) if kept else None
    if template is None or not template.usable:
        template = _start(preload, kept.environment if kept else os.environ)
    try:
        yield template
    finally:
        if kept and template.usable:
            kept.by_key[key] = template
        else:
            template.close()


def _start(preload: Preload, environment: Mapping[str, str]) -> ForkServer:
    return ForkServer.start([*_MODULES, *preload.modules], {**environment, **preload.environment})


def _key(preload: Preload) -> _Key:
    return preload.modules, tuple(sorted(preload.environment.items()))
