"""Compute threads that the workers of a configuration get, by the rule of the controller."""

from paceline.plan.roles import WORKER
from paceline.prediction.cluster import Setup


def fair_threads(setup: Setup) -> int:
    """An equal share of the cores for each of the workers that compete for them; the smallest of all hosts."""
    shares = []
    workers = [place for place in setup.places if place.role == WORKER]
    for host in {place.host for place in workers}:
        machine = setup.machine_of[host]
        cores = int(setup.machine_cores[machine])
        competing = sum(setup.machine_of[place.host] == machine for place in workers)
        limits = setup.limits.get(host)
        host_cores = limits.cpus if limits and limits.cpus is not None else cores
        shares += [cores // competing, int(host_cores // sum(place.host == host for place in workers))]
    return max(1, min(shares, default=1))
