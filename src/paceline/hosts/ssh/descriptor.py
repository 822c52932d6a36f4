"""The descriptor of the kind of hosts `ssh`: machines that the user's ssh client can reach."""

from paceline.hosts.base import HostKind

DESCRIPTOR = HostKind(
    summary="machines reached by ssh, listed in a TOML file or on the command line",
    provider="paceline.hosts.ssh.hosts:SshHosts",
    argument="hosts.toml or HOST,HOST,…",
    needs="the OpenSSH client",
    has_links=True,
)
