"""netns hosts without root: in a user namespace, links can be limited, and nothing of it is left on the machine."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

UNSHARE = ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c"]


def user_namespaces_work() -> bool:
    try:
        return subprocess.run([*UNSHARE, "mount -t tmpfs tmpfs /run"], capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not user_namespaces_work(), reason="the kernel does not allow user namespaces to this user")
def test_link_is_limited_in_a_user_namespace(tmp_path: Path) -> None:
    options = "--strategy ps-sync --layout 'p w' --hosts netns --link 4mbit --batch 10 --stop seconds=3"
    command = f"{shlex.quote(sys.executable)} -m paceline run logreg {options} --runs {tmp_path} --json"
    before = set(os.listdir("/run"))
    completed = subprocess.run(
        [*UNSHARE, f"mount -t tmpfs tmpfs /run && exec {command}"], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    result = json.loads(completed.stdout)
    assert result["status"] == "ok"
    assert result["verdict"]["cause"] == "network"
    # 4 Mbit/s are 0.5 MB/s; the burst of the limit allows a little more at first.
    rates = [host["external"]["tx_mb_s_mean"] for host in result["hosts"]]
    assert 0.3 < max(rates) < 0.6
    assert {name for name in set(os.listdir("/run")) - before if "paceline" in name} == set()
