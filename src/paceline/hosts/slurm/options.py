"""What follows `slurm:` in --hosts, e.g. `partition=cpu,time=30,nodelist=node[1-4]`."""

import re

import msgspec

from paceline.errors import HostError
from paceline.hosts.arguments import read_options, yes_or_no

KIND = "slurm"
_DEFAULT_WAIT_MIN = 10
_MAX_WAIT_MIN = 60 * 24 * 30
_ALLOCATION = {
    "partition": "--partition",
    "time": "--time",
    "account": "--account",
    "constraint": "--constraint",
    "qos": "--qos",
    "reservation": "--reservation",
    "gres": "--gres",
    "cpus": "--cpus-per-task",
    "mem": "--mem",
}
"""Options that are passed on to salloc and srun, by their names here."""
_ALWAYS = ("nodelist", "python", "scratch", "trusted")
"""Options that mean something inside of an allocation, too."""
_WAIT = "wait"
OPTIONS = (*_ALLOCATION, *_ALWAYS, _WAIT)
_TIME = re.compile(r"[0-9]+(-[0-9]+)?(:[0-9]+){0,2}")


class SlurmOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the user, checked as far as that is possible without Slurm."""

    allocation: dict[str, str] = {}
    """What is asked of a new allocation, by the names in `_ALLOCATION`."""
    nodelist: str | None = None
    """The nodes to use, as Slurm writes them; None: any."""
    python: str | None = None
    """The Python that has Paceline; None: the one of `paceline hosts prepare`, or python3."""
    scratch: str | None = None
    """Where an agent makes its private directory; None: the system's temporary directory."""
    trusted: bool = False
    """Whether only people and programs that the user trusts can reach the nodes."""
    wait_min: int | None = None
    """How long to wait for an allocation; None: the default."""

    @property
    def wait_s(self) -> float:
        return 60.0 * (self.wait_min or _DEFAULT_WAIT_MIN)

    def flags(self) -> list[str]:
        """The options of salloc and srun for a new allocation of whole nodes, or of `cpus` cores of each node.

        Other jobs on the same nodes would disturb the measurements, so nodes are shared only if `cpus` is given.
        """
        flags = [f"{_ALLOCATION[name]}={value}" for name, value in self.allocation.items()]
        return flags if "cpus" in self.allocation else [*flags, "--exclusive"]

    def only_for_new_allocations(self) -> list[str]:
        """The names of the given options that have no effect inside of an allocation."""
        return [*self.allocation, *([_WAIT] if self.wait_min else [])]


def read_slurm_options(argument: str | None) -> SlurmOptions:
    """The options in the argument; HostError, in one line, if one is not understood."""
    given = read_options(KIND, argument, OPTIONS) if argument else {}
    if "time" in given and not _TIME.fullmatch(given["time"]):
        raise HostError(
            f"--hosts slurm: time is '{given['time']}': write minutes, e.g. time=30, or as Slurm does 1-12:00:00"
        )
    return SlurmOptions(
        allocation={name: given[name] for name in _ALLOCATION if name in given},
        nodelist=given.get("nodelist"),
        python=given.get("python"),
        scratch=given.get("scratch"),
        trusted=yes_or_no(KIND, "trusted", given.get("trusted")),
        wait_min=_minutes(given.get(_WAIT)),
    )


def _minutes(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= _MAX_WAIT_MIN):
        raise HostError(f"--hosts slurm: wait is '{text}': write the minutes to wait for an allocation, e.g. wait=60")
    return int(text)
