"""The parameters cut into pieces that travel on their own: a push starts while backward still runs."""

from collections.abc import Sequence
from itertools import accumulate

import msgspec

from paceline.workloads.parameters import ParameterShape, shards

BUCKET_BYTES = 4 * 2**20
_VALUES = BUCKET_BYTES // 4


class Bucket(msgspec.Struct, frozen=True):
    server: int
    number: int
    """Among the buckets of its server."""
    part: slice
    """Of all parameters."""
    within: slice
    """Of the server's own part."""

    @property
    def size(self) -> int:
        return int(self.part.stop - self.part.start)


def cut(size: int, servers: int) -> list[list[Bucket]]:
    """The buckets of each server. Cut from the end: what backward finds first is then not mixed with what it finds
    last."""
    found = []
    for server, part in enumerate(shards(size, servers)):
        stops = range(part.stop, part.start, -_VALUES)
        found.append(
            [
                Bucket(server, number, slice(start, stop), slice(start - part.start, stop - part.start))
                for number, stop in enumerate(stops)
                for start in (max(part.start, stop - _VALUES),)
            ]
        )
    return found


def shard_sizes(shapes: Sequence[ParameterShape], servers: int) -> dict[str, dict[str, int]]:
    """For each server, how many values of which parameters it holds."""
    ends = list(accumulate(shape.size for shape in shapes))
    return {
        f"ps{server}": {
            shape.name: held
            for shape, end in zip(shapes, ends, strict=True)
            if (held := min(end, part.stop) - max(end - shape.size, part.start)) > 0
        }
        for server, part in enumerate(shards(ends[-1], servers))
    }


Touched = list[list[int]]


def touched_by(buckets: Sequence[Bucket], shapes: Sequence[ParameterShape]) -> Touched:
    """For each parameter, which of the buckets hold some of it."""
    ends = list(accumulate(shape.size for shape in shapes))
    starts = [0, *ends[:-1]]
    return [
        [i for i, bucket in enumerate(buckets) if bucket.part.start < end and start < bucket.part.stop]
        for start, end in zip(starts, ends, strict=True)
    ]
