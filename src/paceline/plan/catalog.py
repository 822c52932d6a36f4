"""What the plan may choose from: given to it, so that planning needs no framework and no I/O."""

from collections.abc import Mapping

import msgspec


class StrategyFacts(msgspec.Struct, frozen=True, kw_only=True):
    summary: str
    has_server: bool
    one_worker: bool = False
    synchronous: bool = True
    """Whether one update takes a step of every worker."""


STRATEGIES: Mapping[str, StrategyFacts] = {
    "single": StrategyFacts(summary="one worker, nothing shared", has_server=False, one_worker=True),
    "ps-sync": StrategyFacts(summary="parameter server; an update is the mean of all workers", has_server=True),
    "ps-async": StrategyFacts(
        summary="parameter server; every worker's push is an update", has_server=True, synchronous=False
    ),
    "allreduce": StrategyFacts(summary="no server; workers average their gradients", has_server=False),
}


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
    refused: Mapping[str, str] = {}
    """Strategies that make no sense for it, each with the reason."""


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    engines: Mapping[str, EngineFacts]
    workloads: Mapping[str, Mapping[str, WorkloadFacts]]
    """By name and size; a workload of one size has it under ''."""
    hosts: frozenset[str]
    neighbours: frozenset[str] = frozenset()
    """Kinds of hosts whose tasks share this machine's memory."""
