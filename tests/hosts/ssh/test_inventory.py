"""Inventories: what is accepted, and what the one line says that refuses the rest."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import HostError
from paceline.hosts.remote_python import python_script
from paceline.hosts.ssh.client import remote_argv
from paceline.hosts.ssh.inventory import Machine, read_inventory
from paceline.ports import PortRange


def test_machines_of_a_list_keep_their_order_user_and_port() -> None:
    inventory = read_inventory("gpu1,me@gpu2,me@gpu3:2222,[fe80::1]:23")
    assert inventory.machines == (
        Machine(ssh="gpu1"),
        Machine(ssh="me@gpu2"),
        Machine(ssh="me@gpu3", port=2222),
        Machine(ssh="fe80::1", port=23),
    )
    assert [machine.label for machine in inventory.machines] == ["gpu1", "me@gpu2", "me@gpu3:2222", "fe80::1:23"]
    assert not inventory.trusted_network


def test_fields_of_the_file_hold_for_every_machine_that_has_none_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(
        'python = "/opt/python"\nscratch = "/scratch"\nports = "40000-40100"\ntrusted_network = true\n'
        'ssh_config = "config"\n[[host]]\nssh = "a"\n[[host]]\nssh = "b"\npython = "/b/python"\naddress = "10.0.0.2"\n'
    )
    inventory = read_inventory(str(path))
    shared = {"scratch": "/scratch", "config": str(tmp_path / "config"), "ports": PortRange(40000, 40100)}
    assert inventory.machines == (
        Machine(ssh="a", python="/opt/python", **shared),  # type: ignore[arg-type]
        Machine(ssh="b", python="/b/python", address="10.0.0.2", **shared),  # type: ignore[arg-type]
    )
    assert inventory.trusted_network


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "lists no machine|missing required field `host`"),
        ("host = 3", "Expected `array`"),
        ("[[host]]\nssh = 'a'\nadress = 'x'", "unknown field 'adress': did you mean address"),
        ("pyton = 'x'\n[[host]]\nssh = 'a'", "unknown field 'pyton': did you mean python"),
        ("[[host]]\nssh = '-oProxyCommand=evil'", "is not a machine"),
        ("[[host]]\nssh = 'a; rm -rf /'", "is not a machine"),
        ("[[host]]\nssh = 'a:99999'", "port 99999"),
        ("[[host]]\nssh = 'a'\n[[host]]\nssh = 'a'", "listed twice"),
        ("ports = '5'-'3'", "not valid TOML"),
        ("ports = '9-3'\n[[host]]\nssh = 'a'", "ports '9-3'"),
        ("[[host]\n", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(text)
    with pytest.raises(HostError, match=says) as refusal:
        read_inventory(str(path))
    assert "\n" not in str(refusal.value)


def test_a_missing_file_and_a_missing_argument_are_refused() -> None:
    with pytest.raises(HostError, match="cannot read the inventory"):
        read_inventory("not-there.toml")
    with pytest.raises(HostError, match="needs machines"):
        read_inventory(None)


@given(st.text(max_size=40))
def test_any_text_is_a_list_of_machines_or_is_refused(text: str) -> None:
    try:
        machines = read_inventory(text).machines
    except HostError:
        return
    for machine in machines:
        argv = remote_argv(machine, "true")
        # What the user wrote is one word behind `--`, so that it can never be an option of ssh.
        assert argv[argv.index("--") + 1] == machine.ssh
        assert not machine.ssh.startswith("-")


def test_host_keys_are_verified_and_no_password_is_asked_for() -> None:
    argv = remote_argv(Machine(ssh="me@gpu1", port=2222), "true")
    assert "BatchMode=yes" in argv
    assert argv[argv.index("-p") + 1] == "2222"
    assert not any("StrictHostKeyChecking" in word for word in argv)


def test_the_prepared_python_is_used_unless_the_inventory_names_one() -> None:
    assert "paceline/venv/bin/python" in python_script(None, ["-m", "x"])
    assert python_script("/my python", ["-m", "x"]) == "exec '/my python' -P -m x"
