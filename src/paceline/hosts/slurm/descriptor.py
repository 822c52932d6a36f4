"""The descriptor of the kind of hosts `slurm`: nodes of a Slurm cluster."""

from paceline.hosts.base import HostKind

DESCRIPTOR = HostKind(
    summary="nodes of a Slurm cluster, of the allocation in which paceline runs or of one made for the run",
    provider="paceline.hosts.slurm.hosts:SlurmHosts",
    argument="partition=NAME,time=MINUTES,…",
    needs="the commands of Slurm",
    has_links=True,
)
