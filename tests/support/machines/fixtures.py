"""Fixtures that give a test machines, Slurm or Ray, imported by the conftest of all tests.

Each has two parts: what the tests of a file share, and what a test uses, which is as new in every test.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Generic, TypeVar

import pytest

from support.machines.cluster import Cluster, make_machines, reason_without_machines
from support.ray_cluster import RayCluster, make_ray, reason_without_ray
from support.slurm import SlurmCluster, make_slurm, reason_without_slurm

Made = TypeVar("Made")


class Kept(Generic[Made]):
    """Something expensive that the tests of a file use in turn; made again if a test has broken it."""

    def __init__(self, make: Callable[[], AbstractContextManager[Made]]) -> None:
        self._make = make
        self._stack = ExitStack()
        self._made: Made | None = None

    def get(self) -> Made:
        if self._made is None:
            self._made = self._stack.enter_context(self._make())
        return self._made

    def close(self) -> None:
        self._made = None
        self._stack.close()


@pytest.fixture(scope="session")
def machine_support() -> None:
    """Skip a test that calls `make_machines` where that is not possible."""
    if reason := reason_without_machines():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def slurm_support(machine_support: None) -> None:
    """Skip a test that calls `make_slurm` where that is not possible."""
    if reason := reason_without_slurm():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def ray_support(machine_support: None) -> None:
    """Skip a test that calls `make_ray` where that is not possible."""
    if reason := reason_without_ray():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def machines_of_file(machine_support: None) -> Iterator[Kept[Cluster]]:
    """Use `machines`."""
    kept = Kept(make_machines)
    yield kept
    kept.close()


@pytest.fixture
def machines(machines_of_file: Kept[Cluster]) -> Iterator[Cluster]:
    """Three machines, node1 to node3: no faults, no processes, no files of other tests."""
    cluster = machines_of_file.get()
    yield cluster
    _reset(machines_of_file, cluster)


@pytest.fixture(scope="module")
def slurm_of_file(slurm_support: None) -> Iterator[Kept[SlurmCluster]]:
    """Use `slurm`."""
    kept = Kept(make_slurm)
    yield kept
    kept.close()


@pytest.fixture
def slurm(slurm_of_file: Kept[SlurmCluster]) -> Iterator[SlurmCluster]:
    """A Slurm cluster with two idle nodes, node1 and node2: no faults, no jobs, no files of other tests."""
    made = slurm_of_file.get()
    yield made
    _reset(slurm_of_file, made)


@pytest.fixture(scope="module")
def ray_of_file(ray_support: None) -> Iterator[Kept[RayCluster]]:
    """Use `ray_cluster`."""
    kept = Kept(make_ray)
    yield kept
    kept.close()


@pytest.fixture
def ray_cluster(ray_of_file: Kept[RayCluster]) -> Iterator[RayCluster]:
    """A Ray cluster with a head and two more nodes, node1 to node3: no faults, no actors, no files of other tests."""
    made = ray_of_file.get()
    yield made
    _reset(ray_of_file, made)


def _reset(kept: Kept[Made], made: Cluster | SlurmCluster | RayCluster) -> None:
    """Undo what a test did; what cannot be used any more is made again for the next test."""
    try:
        made.reset()
    except AssertionError:
        kept.close()
