"""Cuts the parameter vector into one shard per server, and each shard into buckets.

A bucket is pushed and answered on its own, so pushing starts while the backward pass still computes other gradients.
"""

from collections.abc import Sequence
from itertools import accumulate

import msgspec

from paceline.plan.roles import SERVER, task_name
from paceline.workloads.parameters import ParameterShape, shards

BUCKET_BYTES = 4 * 2**20
"""The size of a bucket; only the last one of a shard may be smaller."""
_BUCKET_VALUES = BUCKET_BYTES // 4


class Bucket(msgspec.Struct, frozen=True):
    server: int
    number: int
    """Its index among the buckets of its server."""
    in_model: slice
    """Its values in the vector of all parameters."""
    in_shard: slice
    """Its values in the shard of its server."""

    @property
    def size(self) -> int:
        """How many values it has."""
        return int(self.in_model.stop - self.in_model.start)


def cut_buckets(size: int, servers: int) -> list[list[Bucket]]:
    """The buckets of each server, for a model of `size` values.

    Each shard is cut from its end: the backward pass computes the gradients of the last parameters first, and this
    keeps them apart from the gradients it computes last, so that the first bucket can be pushed early.
    """
    buckets_by_server = []
    for server, part in enumerate(shards(size, servers)):
        stops = range(part.stop, part.start, -_BUCKET_VALUES)
        buckets_by_server.append(
            [
                Bucket(server, number, slice(start, stop), slice(start - part.start, stop - part.start))
                for number, stop in enumerate(stops)
                for start in (max(part.start, stop - _BUCKET_VALUES),)
            ]
        )
    return buckets_by_server


def shard_sizes(shapes: Sequence[ParameterShape], servers: int) -> dict[str, dict[str, int]]:
    """For each server's task name: how many values of each parameter it stores."""
    ends = list(accumulate(shape.size for shape in shapes))
    return {
        task_name(SERVER, server): {
            shape.name: stored
            for shape, end in zip(shapes, ends, strict=True)
            if (stored := min(end, part.stop) - max(end - shape.size, part.start)) > 0
        }
        for server, part in enumerate(shards(ends[-1], servers))
    }


BucketIndices = list[list[int]]
"""For each parameter, the indices of the buckets that contain some of its values."""


def buckets_by_parameter(buckets: Sequence[Bucket], shapes: Sequence[ParameterShape]) -> BucketIndices:
    """For each parameter, the indices (in `buckets`) of the buckets that contain some of its values."""
    ends = list(accumulate(shape.size for shape in shapes))
    starts = [0, *ends[:-1]]
    return [
        [i for i, bucket in enumerate(buckets) if bucket.in_model.start < end and start < bucket.in_model.stop]
        for start, end in zip(starts, ends, strict=True)
    ]
