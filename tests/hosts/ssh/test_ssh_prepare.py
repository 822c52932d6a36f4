"""`paceline hosts prepare` to its end: machines without Paceline get it, and can then take part in a run."""

import json
from pathlib import Path

import pytest

from support.machines import make_machines
from support.ssh_runs import paceline, result_of

pytestmark = pytest.mark.slow
_DISK_BYTES = 6 * 2**30
"""The packages of torch, three times while they are installed."""


def test_prepared_machines_pass_the_check_and_take_part_in_a_run(machine_support: None, tmp_path: Path) -> None:
    with make_machines(2, disk_bytes=_DISK_BYTES) as machines:
        inventory = machines.folder / "hosts.toml"
        entries = "".join(f'[[host]]\nssh = "{machine.name}"\n' for machine in machines)
        inventory.write_text(f'ssh_config = "ssh_config"\n{entries}')
        hosts = f"ssh:{inventory}"
        before = paceline("hosts", "check", hosts)
        assert before.returncode == 1
        assert f"has no Paceline (…): run `paceline hosts prepare {hosts}`" in _without_detail(before.stdout)

        # The machines have no network, so the packages of this machine are sent.
        prepared = paceline("hosts", "prepare", hosts, "--offline", "--engine", "torch", timeout_s=900)
        assert prepared.returncode == 0, prepared.stderr
        assert "2 of 2 machines are ready" in prepared.stdout

        checked = paceline("hosts", "check", hosts, "--json")
        rows = [json.loads(line) for line in checked.stdout.splitlines()]
        assert [row["problem"] for row in rows] == [None, None]
        assert all(row["engines"]["torch"] and not row["engines"]["tensorflow"] for row in rows)

        options = ("--strategy", "ps-sync", "--layout", "pw w", "--stop", "steps=20")
        result = result_of(tmp_path, "logreg", "--hosts", hosts, *options)
        assert (result["status"], result["updates"]) == ("ok", 20)
        for machine in machines:
            machine.wait_until_idle()
            assert not [file for file in machine.files() if "/.cache/paceline" not in file and file != "/root/.cache"]
            assert (machine.outside(machine.home) / ".cache/paceline/venv/bin/python").exists()


def _without_detail(text: str) -> str:
    """The text, with what an agent's log says in parentheses left out."""
    begin = text.find("has no Paceline (")
    end = text.find("):", begin)
    return f"{text[:begin]}has no Paceline (…{text[end:]}" if begin >= 0 else text
