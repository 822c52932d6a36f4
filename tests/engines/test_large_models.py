"""Models of many megabytes on the torch parameter server: what it holds, and what it gets while backward runs."""

from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

import paceline
from paceline.paramserver.buckets import BUCKET_BYTES, buckets_by_parameter, cut_buckets
from paceline.workloads.alexnet import CIFAR, IMAGENET


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_buckets_cover_every_value_once_and_none_is_too_large(servers: int) -> None:
    by_server = cut_buckets(CIFAR.size, servers)
    assert len(by_server) == servers
    buckets = sorted((bucket for found in by_server for bucket in found), key=lambda bucket: bucket.in_model.start)
    assert buckets[0].in_model.start == 0
    assert buckets[-1].in_model.stop == CIFAR.size
    for one, other in pairwise(buckets):
        assert one.in_model.stop == other.in_model.start
    assert max(bucket.size for bucket in buckets) * 4 <= BUCKET_BYTES


def test_the_last_layers_buckets_do_not_wait_for_the_first_layers() -> None:
    (buckets,) = cut_buckets(IMAGENET.size, 1)
    bucket_indices = buckets_by_parameter(buckets, IMAGENET.parameters)
    last_bias, first_weight = bucket_indices[-1], bucket_indices[0]
    assert set(last_bias).isdisjoint(first_weight)


def test_the_server_holds_less_than_three_times_the_model(tmp_path: Path) -> None:
    """Through sockets, with momentum: values, velocity, and no more than a message or so of each worker."""
    (result,) = paceline.run(
        "alexnet:cifar", runs=str(tmp_path), strategy="ps-sync", layout="p w w", transport="tcp", batch=4,
        stop="steps=8", eval_examples=100,
    )  # fmt: skip
    assert result.status == "ok", result.reason
    server = pl.read_parquet(Path(result.dir) / "samples.parquet").filter(pl.col("host") == "h1")
    model = 4 * CIFAR.size
    assert server["memory_bytes"].max() < 3 * model + 2 * BUCKET_BYTES  # type: ignore[operator]
