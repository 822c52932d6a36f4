"""Finds workloads: the built-in ones by name and size, and a user's own by file or module."""

from collections.abc import Mapping

from paceline.spec.run_options import RunSpec
from paceline.workloads import (
    alexnet,
    autoencoder,
    lenet,
    logreg,
    matmul,
    resnet,
    sparse_logreg,
    spatial_transformer,
    transformer,
)
from paceline.workloads.script import script_workload
from paceline.workloads.user_workload import is_user_workload, load_user_workload
from paceline.workloads.workload import Workload

Sizes = Mapping[str, Workload]
"""Size name -> workload; the first is the default."""

WORKLOADS: Mapping[str, Sizes] = {
    module.SIZES[0].name: {workload.size: workload for workload in module.SIZES}
    for module in (logreg, sparse_logreg, lenet, alexnet, resnet, autoencoder, spatial_transformer, transformer, matmul)
}


def sizes_of(name: str) -> Sizes:
    """The sizes of a built-in workload or of a user's own; KeyError if there is no such workload."""
    if is_user_workload(name):
        user_workload = load_user_workload(name)
        return {user_workload.size: user_workload}
    return WORKLOADS[name]


def workload(name: str, size: str | None = None) -> Workload:
    """The workload of this name and size; the default size if `size` is None."""
    sizes = sizes_of(name)
    return next(iter(sizes.values())) if size is None else sizes[size]


def workload_of(spec: RunSpec, size: str) -> Workload:
    """The workload of a run; of a user's script, one that has only a name."""
    return script_workload(spec.script) if spec.is_script else workload(spec.workload, size)
