"""All built-in workloads by name, each in its sizes; and the way to a user's own."""

from collections.abc import Mapping

from paceline.workloads import alexnet, autoencoder, lenet, logreg, matmul, sparse_logreg, spatial_transformer
from paceline.workloads.user_workload import is_user_workload, load_user_workload
from paceline.workloads.workload import Workload

Sizes = Mapping[str, Workload]
"""By name; the first is what one gets without asking."""

WORKLOADS: Mapping[str, Sizes] = {
    module.SIZES[0].name: {workload.size: workload for workload in module.SIZES}
    for module in (logreg, sparse_logreg, lenet, alexnet, autoencoder, spatial_transformer, matmul)
}


def sizes_of(name: str) -> Sizes:
    """Of a built-in workload, or of a user's own; KeyError if there is no such."""
    if is_user_workload(name):
        own = load_user_workload(name)
        return {own.size: own}
    return WORKLOADS[name]


def workload(name: str, size: str | None = None) -> Workload:
    sizes = sizes_of(name)
    return next(iter(sizes.values())) if size is None else sizes[size]
