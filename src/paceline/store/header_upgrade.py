"""Upgrades run headers that older versions of Paceline wrote."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paceline.errors import unknown
from paceline.store.header_facts import alternatives, stored_engine, stored_host_kind
from paceline.strategies.registry import strategies

Fields = Mapping[str, Any]
VERSION = 1
"""Version of the headers that this version of Paceline writes."""


def upgrade_header(fields: Fields) -> Fields:
    """The fields of a header of any version up to `VERSION`, converted to `VERSION`."""
    for version in range(fields.get("version", 0), VERSION):
        fields = _UPGRADES[version](fields)
    return fields


def _from_0_to_1(fields: Fields) -> Fields:
    """Add the facts of strategy, engine and hosts, which version 0 named only in the spec.

    Headers of version 0 have no field `version`.
    """
    spec = fields["spec"]
    if spec["strategy"] not in strategies():
        raise LookupError(unknown("strategy", str(spec["strategy"]), strategies()))
    strategy = strategies()[spec["strategy"]]
    engine = stored_engine(spec["engine"], strategy.name)
    host_kind = stored_host_kind(spec["hosts"])
    added = {
        "strategy": strategy,
        "alternatives": alternatives(strategy, spec["engine"]),
        "engine": msgspec.structs.replace(engine, version=fields.get("versions", {}).get(spec["engine"])),
        "host_kind": msgspec.structs.replace(host_kind, shares_one_machine=fields.get("one_machine", False)),
    }
    return {**fields, **msgspec.to_builtins(added), "version": 1}


_UPGRADES: Mapping[int, Callable[[Fields], Fields]] = {0: _from_0_to_1}
"""For each version, the function that upgrades a header to the next version."""
