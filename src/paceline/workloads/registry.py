"""All built-in workloads by name, each in its sizes."""

from collections.abc import Mapping

from paceline.workloads import alexnet, autoencoder, lenet, logreg, sparse_logreg, spatial_transformer
from paceline.workloads.workload import Workload

Sizes = Mapping[str, Workload]
"""By name; the first is what one gets without asking."""

WORKLOADS: Mapping[str, Sizes] = {
    module.SIZES[0].name: {workload.size: workload for workload in module.SIZES}
    for module in (logreg, sparse_logreg, lenet, alexnet, autoencoder, spatial_transformer)
}


def workload(name: str, size: str | None = None) -> Workload:
    sizes = WORKLOADS[name]
    return next(iter(sizes.values())) if size is None else sizes[size]
