"""What the plan may choose from: given to it, so that planning needs no framework and no I/O."""

from collections.abc import Mapping

import msgspec

from paceline.strategies.descriptor import Fact, Strategy


class EngineFacts(msgspec.Struct, frozen=True, kw_only=True):
    strategies: frozenset[str]
    installed: bool
    install_hint: str
    drops_late: bool = False
    """Whether its servers can go on without the slowest workers' gradients."""
    shares_memory: bool = False
    """Whether its tasks can pass values through memory where they share some."""


class WorkloadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Of one size of a workload."""

    train_examples: int
    engines: frozenset[str]
    has_accuracy: bool = True
    has_test: bool = True
    """Whether there are examples to evaluate on."""
    fixed_examples: bool = False
    """Whether the training examples are a user's own, which cannot be cut to a number."""
    takes_momentum: bool = True
    trains: bool = True
    """False: it computes something else, step by step, and has no examples."""
    refused: Mapping[Fact, str] = {}
    """Facts of strategies that make no sense for it, each with the reason."""


class HostKindFacts(msgspec.Struct, frozen=True, kw_only=True):
    shares_memory: bool = False
    """Whether tasks on different hosts can pass values through this machine's memory."""


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    engines: Mapping[str, EngineFacts]
    workloads: Mapping[str, Mapping[str, WorkloadFacts]]
    """By name and size; a workload of one size has it under ''."""
    strategies: Mapping[str, Strategy]
    hosts: Mapping[str, HostKindFacts]
    """Kinds of hosts by name."""
