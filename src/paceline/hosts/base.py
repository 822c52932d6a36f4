"""The contract of a kind of hosts: start one agent per host and hand back its stdin and stdout.

A kind of hosts is a folder (or an installed package) with a descriptor, registered in pyproject.toml:

    [project.entry-points."paceline.hosts"]
    local = "paceline.hosts.local.descriptor:DESCRIPTOR"

The descriptor, a `HostKind`, says what hosts of this kind have and can do. Its `provider` makes them: `check` says
whether that works here, `open` makes the hosts and removes them, and `Host.start_agent` starts an agent. The controller
speaks with an agent only through its stdin and stdout; closing its stdin ends the agent and all its tasks. Nothing else
is asked of a kind, and nothing outside of its folder tests its name.

An agent is the command that `child_agent.agent_argv` returns, run on the host with Paceline installed there.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol

import msgspec

from paceline.entry_points import load_object
from paceline.errors import HostError
from paceline.ports import PortRange
from paceline.spec.fault import HostFault

if TYPE_CHECKING:
    from paceline.hosts.prepare import Shell

Limit = Literal["link", "latency", "cpus"]
"""What `paceline run` can limit on a host; each is also the name of its flag and of its field in a spec."""


class Preload(msgspec.Struct, frozen=True):
    """What a kind of hosts may import once for all tasks that are on one machine (see agent_template.py)."""

    modules: tuple[str, ...] = ()
    """Modules that tasks import and that may be imported before a fork."""
    environment: Mapping[str, str] = {}
    """Environment variables that must be set before these modules are imported."""


class HostRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One host that a run needs."""

    name: str
    link_bits_s: int | None = None
    """Rate of the host's link in each direction; None is not limited."""
    latency_s: float | None = None
    """Delay of everything that the host sends; None is no delay."""
    cpus: float | None = None
    """Cores that the tasks of the host share; None is all of them."""
    faults: frozenset[str] = frozenset()
    """The faults (see HostFault) that will be injected into this host."""
    preload: Preload = Preload()
    """The same for all hosts of a run."""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a running host is brought to by a fault, or brought back to after it."""

    linked: bool = True
    """False: its link is cut in both directions."""
    link_bits_s: int | None = None
    cpus: float | None = None


class AgentPipes(Protocol):
    """A running agent as the controller sees it."""

    stdin: BinaryIO
    stdout: BinaryIO

    def wait(self, timeout_s: float) -> bool:
        """Whether the agent has ended within that time."""
        ...

    def kill(self) -> None:
        """End the agent at once."""
        ...


class Host(Protocol):
    """A host that exists."""

    name: str
    """The name in its HostRequest."""
    address: str
    """The IP address at which the run's other hosts reach it, and which its tasks bind to."""

    @property
    def ports(self) -> PortRange | None:
        """The ports on which its tasks may listen, e.g. those that a firewall admits; None: any."""
        ...

    def start_agent(self, log: Path) -> AgentPipes:
        """Start the agent on this host. Its stderr is appended to `log`, a file of the controller's machine."""
        ...

    def apply_condition(self, condition: Condition) -> None:
        """Change the running host, within the faults of its HostRequest; RunError if that fails."""
        ...


class HostProvider(ABC):
    """Makes the hosts of one kind."""

    @abstractmethod
    def check(self, requests: Sequence[HostRequest]) -> None:
        """Raise HostError, in one line that says what to do, if these hosts cannot be made here. Changes nothing."""

    @abstractmethod
    def open(self, token: str, requests: Sequence[HostRequest]) -> AbstractContextManager[Sequence[Host]]:
        """Make the hosts, in the order of the requests; leaving the context removes every trace of them.

        `token` is unique to the run ([a-z0-9-], at most 24 characters): use it to name what the kind creates.
        """

    def trusted_network(self) -> bool:
        """Whether the user declared, e.g. in an inventory, that only trusted users can reach the hosts' network.

        Not asked if the descriptor says that the network is private.
        """
        return False

    def machines(self) -> list[str]:
        """The machines that this provider can use, in the order in which a run takes them, as the user calls them.

        Empty if it can make any number of hosts.
        """
        return []

    def shells(self) -> "Sequence[Shell]":
        """How `paceline hosts prepare` reaches the machines; HostError if there is nothing to prepare."""
        raise HostError("hosts of this kind use the Paceline of this machine: there is nothing to prepare")

    def restricts_ports(self) -> bool:
        """Whether a host will have `ports`. Strategies that cannot keep to them are refused then."""
        return False

    def prepare(self, preload: Preload) -> None:  # noqa: B027  # Optional: a kind may have nothing to prepare.
        """Begin what takes long and depends only on the preload; hosts may be opened soon, or never."""

    def leftovers(self) -> list[str]:
        """A line for each thing on this machine that belongs to hosts of a run that is no longer there."""
        return []

    def clean(self) -> list[str]:
        """Remove leftovers without touching a live run; a line for each thing removed, or that could not be."""
        return []


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """An option that `paceline doctor` tries: it works if `check` accepts the request."""

    option: str
    """As a user writes it, e.g. --link."""
    request: HostRequest
    summary: str
    """What the option does with hosts of this kind."""


class HostKind(msgspec.Struct, frozen=True, kw_only=True):
    """The descriptor of a kind of hosts."""

    summary: str
    """One line for `paceline doctor`."""
    provider: str
    """`module:function` of (argument: str | None) -> HostProvider. The argument is what follows `KIND:` in --hosts."""
    argument: str | None = None
    """What the argument is, e.g. FILE; None if the kind takes none."""
    needs: str = ""
    """What it needs to work, in a few words for messages, e.g. `Linux, root`."""
    shares_one_machine: bool = False
    """Whether all hosts are on one machine, so that their tasks compete for the same cores and memory."""
    shares_memory: bool = False
    """Whether tasks of different hosts can map the same memory and open each other's files in /proc."""
    shares_filesystem: bool = False
    """Whether agents can write into the run directory: what a task recorded then survives the loss of its agent."""
    has_links: bool = False
    """Whether each host has a network link of its own, whose capacity can be measured and can be exhausted."""
    private_network: bool = False
    """Whether only this machine can reach the network between its hosts, e.g. loopback. Frameworks without
    authentication may listen only there or on a network that the user declared as trusted."""
    limits: frozenset[Limit] = frozenset()
    """The limits that its hosts can be given."""
    faults: frozenset[HostFault] = frozenset()
    """The faults that can be injected into its hosts."""
    probes: tuple[Probe, ...] = ()
    """What `paceline doctor` should try beside a host without any limit."""

    def open_provider(self, argument: str | None = None) -> HostProvider:
        """The provider for hosts of this kind. Loads the kind's own code; HostError if that does not work."""
        try:
            provider = load_object(self.provider)(argument)
            if not isinstance(provider, HostProvider):
                raise TypeError(f"it returns a {type(provider).__name__}, not a HostProvider")
        except HostError:
            raise
        except Exception as error:
            raise HostError(f"{self.provider} cannot be used: {type(error).__name__}: {error}") from error
        return provider
