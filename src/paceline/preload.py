"""Begins to import what the tasks of a run need before the run is planned, which takes long with large frameworks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from paceline.engines.registry import engines
from paceline.errors import UsageError
from paceline.hosts.agent_template import keep_templates
from paceline.hosts.base import Preload
from paceline.hosts.registry import host_kinds, host_provider
from paceline.spec.hosts import HostsChoice
from paceline.spec.run_options import RunSpec


def preload_of(engine: str) -> Preload:
    """What the tasks of an engine may share."""
    descriptor = engines()[engine]
    return Preload(descriptor.preload, descriptor.environment)


@contextmanager
def prepared(specs: Sequence[RunSpec]) -> Iterator[None]:
    """Begin to import what the first of these runs needs; what is imported is kept for all runs in this context."""
    with keep_templates():
        for spec in specs[:1]:
            # Names that do not exist are refused when the run is planned.
            if spec.engine in engines() and HostsChoice.parse(spec.hosts).kind in host_kinds():
                with suppress(UsageError):
                    host_provider(spec.hosts).prepare(preload_of(spec.engine))
        yield
