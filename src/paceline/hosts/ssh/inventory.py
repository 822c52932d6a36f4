"""Which machines to use, from a TOML file or from a list on the command line.

python = "/opt/paceline/bin/python"    # all fields but `ssh` are optional
scratch = "/scratch"
trusted_network = true
ssh_config = "ssh_config"              # instead of the user's own; relative to this file
ports = "40000-40100"

[[host]]
ssh = "gpu1"                           # as for the ssh command: an alias, HOST, USER@HOST or USER@HOST:PORT
address = "10.0.0.1"
"""

import re
import tomllib
from pathlib import Path

import msgspec

from paceline.errors import HostError, SpecError, unknown
from paceline.ports import PortRange

_DESTINATION = re.compile(r"(?:[A-Za-z0-9_.-]+@)?(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>[0-9]{1,5}))?")
_MAX_FILE_BYTES = 2**20
SUFFIX = ".toml"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, with what the file says for all machines filled in."""

    ssh: str
    """HOST, USER@HOST or an alias of the user's ssh configuration, without a port."""
    port: int | None = None
    address: str | None = None
    """The address at which the other machines reach it; None: the one that the ssh connection arrives at."""
    python: str | None = None
    """The Python that has Paceline; None: the one of `paceline hosts prepare`, or python3."""
    scratch: str | None = None
    """Where the agent makes its private directory; None: the system's temporary directory."""
    config: str | None = None
    """The configuration file of the ssh client; None: the user's own."""
    ports: PortRange | None = None
    """The ports on which its tasks may listen; None: any."""

    @property
    def label(self) -> str:
        """What the user calls it."""
        return f"{self.ssh}:{self.port}" if self.port else self.ssh


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    """What the user gave: the path of a file, or the list itself."""
    machines: tuple[Machine, ...]
    trusted_network: bool = False
    """Whether only people and programs that the user trusts can reach the machines' addresses."""


class _HostEntry(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    ssh: str
    address: str | None = None
    python: str | None = None
    scratch: str | None = None
    ports: str | None = None


class _File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    host: list[_HostEntry]
    python: str | None = None
    scratch: str | None = None
    ports: str | None = None
    ssh_config: str | None = None
    trusted_network: bool = False


def read_inventory(argument: str | None) -> Inventory:
    """The machines that follow `ssh:` in --hosts; HostError, in one line, if they cannot be understood."""
    if not argument:
        raise HostError("--hosts ssh needs machines: write --hosts ssh:hosts.toml or --hosts ssh:HOST,HOST")
    if argument.endswith(SUFFIX):
        return _read_file(Path(argument))
    return Inventory(source=argument, machines=_distinct([_machine(text) for text in argument.split(",")], argument))


def _read_file(path: Path) -> Inventory:
    file = _decode(path)
    config = str(path.absolute().parent / Path(file.ssh_config).expanduser()) if file.ssh_config else None
    machines = [
        msgspec.structs.replace(
            _machine(entry.ssh, str(path)),
            address=entry.address,
            python=entry.python or file.python,
            scratch=entry.scratch or file.scratch,
            config=config,
            ports=_ports(entry.ports or file.ports, path),
        )
        for entry in file.host
    ]
    if not machines:
        raise HostError(f'{path} lists no machine: add one as [[host]] with ssh = "HOST"')
    return Inventory(source=str(path), machines=_distinct(machines, str(path)), trusted_network=file.trusted_network)


def _decode(path: Path) -> _File:
    try:
        with path.open("rb") as stream:
            text = stream.read(_MAX_FILE_BYTES + 1)
        if len(text) > _MAX_FILE_BYTES:
            raise HostError(f"{path} is larger than {_MAX_FILE_BYTES >> 20} MiB: an inventory is a short list")
        return msgspec.convert(tomllib.loads(text.decode()), _File)
    except OSError as error:
        raise HostError(f"cannot read the inventory {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise HostError(f"{path} is not UTF-8 text: an inventory is a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise HostError(f"{path} is not valid TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise HostError(f"{path}: {_explain(str(error))}") from None


def _explain(problem: str) -> str:
    """An unknown field with the names that exist, instead of msgspec's words for it."""
    match = re.search(r"unknown field `([^`]*)`(?: - at `([^`]*)`)?", problem)
    if not match:
        return problem
    struct = _HostEntry if match[2] else _File
    return unknown("field", match[1], [field.name for field in msgspec.structs.fields(struct)])


def _machine(text: str, source: str = "--hosts") -> Machine:
    match = _DESTINATION.fullmatch(text.strip())
    # A name that begins with '-' would be an option of the ssh command.
    if not match or text.strip().startswith("-"):
        raise HostError(f"{source}: '{text}' is not a machine: write HOST, USER@HOST or USER@HOST:PORT")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 1 <= port <= 65535:
        raise HostError(f"{source}: port {port} of '{text}' is out of range: use 1 to 65535")
    name = text.strip().removesuffix(f":{match['port']}") if port else text.strip()
    return Machine(ssh=name.replace("[", "").replace("]", ""), port=port)


def _ports(text: str | None, path: Path) -> PortRange | None:
    try:
        return PortRange.parse(text) if text else None
    except SpecError as error:
        raise HostError(f"{path}: {error}") from None


def _distinct(machines: list[Machine], source: str) -> tuple[Machine, ...]:
    labels = [machine.label for machine in machines]
    repeated = next((label for label in labels if labels.count(label) > 1), None)
    if repeated:
        raise HostError(f"{source}: {repeated} is listed twice: each host of a run must be another machine")
    return tuple(machines)
