"""A `kubectl` for tests: `get pods` prints a file, and `exec` runs the command on this machine or on a test machine.

It checks no credentials and has no API server, so it shows only how Paceline uses kubectl's command line.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SCRIPT = """#!/bin/sh
echo "$*" >> {log}
while [ $# -gt 0 ]; do
  case "$1" in
    get) exec cat {pods};;
    exec) shift; break;;
  esac
  shift
done
while [ "$1" != -- ]; do
  case "$1" in -*) ;; *) pod=$1;; esac
  shift
done
shift
case "$pod" in
{cases}
*) echo "Error from server (NotFound): pods \\"$pod\\" not found" >&2; exit 1;;
esac
"""


def pod(name: str, address: str = "127.0.0.1", *, phase: str = "Running", **fields: Any) -> dict[str, Any]:
    """A pod as `kubectl get pods --output=json` describes it; `fields` are added to its status."""
    ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
    return {
        "metadata": {"name": name, "labels": {"app": "paceline"}},
        "spec": {"containers": [{"name": "paceline"}, {"name": "sidecar"}]},
        "status": {"phase": phase, "podIP": address, "conditions": [ready], **fields},
    }


def write_kubectl(folder: Path, pods: Sequence[dict[str, Any]], enter: Mapping[str, Sequence[str]]) -> Path:
    """Make the command in `folder`; returns the file to which it writes its arguments.

    `enter` has, for each pod, the command before the command: nothing, or one that enters a test machine.
    """
    log, listing = folder / "kubectl.log", folder / "pods.json"
    listing.write_text(json.dumps({"kind": "List", "items": pods}))
    cases = "\n".join(f'{name}) exec {shlex.join(argv)} "$@";;' for name, argv in enter.items())
    command = folder / "kubectl"
    command.write_text(_SCRIPT.format(log=log, pods=listing, cases=cases))
    command.chmod(0o755)
    return log
