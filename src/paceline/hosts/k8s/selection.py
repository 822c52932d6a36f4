"""What follows `k8s:` in --hosts, e.g. `app=paceline,namespace=training`: which pods to use, and how."""

import msgspec

from paceline.errors import HostError
from paceline.hosts.arguments import add_option, split_at_commas, yes_or_no

KIND = "k8s"
OPTIONS = ("namespace", "container", "context", "python", "scratch", "trusted")
"""These names are options of Paceline; everything else is part of the label selector."""


class PodSelection(msgspec.Struct, frozen=True, kw_only=True):
    selector: str
    """The label selector, as for `kubectl get pods --selector`."""
    namespace: str | None = None
    """None: the one of kubectl's context."""
    container: str | None = None
    """The container of each pod; None: the pod's default container."""
    context: str | None = None
    """The context of kubectl's configuration; None: the current one."""
    python: str | None = None
    """The Python that has Paceline; None: the one of `paceline hosts prepare`, or python3."""
    scratch: str | None = None
    """Where an agent makes its private directory; None: the system's temporary directory."""
    trusted: bool = False
    """Whether only people and programs that the user trusts can reach the pods."""


def read_selection(argument: str | None) -> PodSelection:
    """Which pods to use; HostError, in one line, if that is not understood."""
    options: dict[str, str] = {}
    requirements = []
    for part in split_at_commas(argument or ""):
        name, equals, value = (word.strip() for word in part.partition("="))
        if equals and name in OPTIONS:
            add_option(KIND, options, name, value.removeprefix("=").strip(), OPTIONS)
        elif part:
            requirements.append(part)
    if not requirements:
        raise HostError("--hosts k8s needs a label selector: write e.g. --hosts k8s:app=paceline")
    trusted = yes_or_no(KIND, "trusted", options.pop("trusted", None))
    return PodSelection(selector=",".join(requirements), trusted=trusted, **options)
