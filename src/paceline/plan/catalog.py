"""The engines, strategies, workloads and kinds of hosts that a plan can choose from.

`available.catalog` fills in the catalog, so that planning itself imports no framework and does no I/O.
"""

from collections.abc import Mapping

import msgspec

from paceline.spec.optimizer import TrainingText
from paceline.strategies.descriptor import Fact, Strategy


class EngineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What planning needs to know about an engine."""

    strategies: frozenset[str]
    installed: bool
    install_hint: str
    options: frozenset[str] = frozenset()
    """The options that only some engines have and that this one has."""
    drops_late_gradients: bool = False
    """Whether its parameter servers can make an update without the gradients of the slowest workers."""
    shares_memory: bool = False
    """Whether its tasks can exchange values through shared memory on hosts that allow it."""
    any_optimizer: bool = False
    """Whether it implements every optimizer, schedules, clipping and groups; else only sgd and momentum."""
    clips_across_servers: bool = False
    """Whether a gradient of which several servers have a part can be clipped."""
    unauthenticated: Mapping[str, str] = {}
    """By strategy: what listens without authentication, as text to follow `because`."""
    system_ports: Mapping[str, str] = {}
    """By strategy: what listens on ports that the operating system chooses, as text to follow `because`."""


class WorkloadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What planning needs to know about one size of a workload."""

    train_examples: int
    engines: frozenset[str]
    why_not: Mapping[str, str] = {}
    """Why the other engines cannot run it, by the engine's name, each as the predicate of a sentence."""
    largest_examples: int | None = None
    """The most examples that --examples may ask for, of data that can be augmented; None: `train_examples`."""
    metrics: frozenset[str] = frozenset({"accuracy"})
    """The metrics of an evaluation, beside the loss."""
    evaluates_itself: bool = False
    """Whether the workload evaluates with code of its own, which may have any metric."""
    has_test: bool = True
    """Whether there are examples to evaluate on."""
    fixed_examples: bool = False
    """Whether the workload provides its own training examples, so that `--examples` cannot limit their number."""
    has_layers: bool = True
    """Whether its model is a list of layers, so that --set init can change the initial weights."""
    has_activation: bool = True
    """Whether one of its layers is an activation, which --set activation can change."""
    takes_order: bool = True
    """Whether --set shard, shuffle and steps_per_epoch can change the order of its examples."""
    by_rows: bool = False
    """Whether an update changes only the weights that a batch uses, so that nothing may change the others."""
    training: TrainingText = TrainingText(lr=0.1)
    """The optimizer as the workload gives it."""
    parameter_names: tuple[str, ...] = ()
    """The names of its parameters; empty if they are not known before the model is built."""
    trains: bool = True
    """False for a computation that is not training: it has steps, but no examples."""
    parameters: int = 0
    """The number of values of its model; 0 if that is not known."""
    linear: bool = False
    """Whether its model is one linear layer for classification."""
    script: bool = False
    """Whether it is a user's script, which decides by itself what it trains, evaluates and when it ends."""
    refused: Mapping[Fact, str] = {}
    """Facts of strategies that the workload does not support, each with the reason."""


class HostKindFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What planning needs to know about a kind of hosts."""

    argument: str | None = None
    """What may follow `KIND:` in --hosts; None if nothing may."""
    needs: str = ""
    """What it needs to work, in a few words."""
    shares_one_machine: bool = False
    """Whether the tasks of all hosts compete for the cores and the memory of one machine."""
    shares_memory: bool = False
    """Whether tasks on different hosts can exchange values through the shared memory of this machine."""
    shares_filesystem: bool = False
    """Whether agents can write into the run directory."""
    has_links: bool = False
    """Whether each host has a network link of its own."""
    private_network: bool = False
    """Whether only this machine can reach the network between its hosts."""
    limits: frozenset[str] = frozenset()
    """The limits that its hosts support, of link, latency and cpus."""
    faults: frozenset[str] = frozenset()
    """The faults that its hosts support, of cut, limit and slow."""


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a plan can choose from on this machine."""

    engines: Mapping[str, EngineFacts]
    workloads: Mapping[str, Mapping[str, WorkloadFacts]]
    """By name and size; the size of a workload with only one size is ''."""
    strategies: Mapping[str, Strategy]
    hosts: Mapping[str, HostKindFacts]
    """Kinds of hosts by name."""
    trusted_hosts: frozenset[str] = frozenset()
    """The values of `hosts` (`KIND[:ARGUMENT]`) whose provider says that the user declared their network as trusted."""
    restricted_hosts: frozenset[str] = frozenset()
    """The values of `hosts` whose provider allows tasks to listen only on certain ports."""
    broken_engines: Mapping[str, str] = {}
    """Registered engines that cannot be loaded, each with the reason; so are the next two."""
    broken_strategies: Mapping[str, str] = {}
    broken_hosts: Mapping[str, str] = {}
