"""Models of many megabytes on the torch parameter server: their buckets, and the memory of the server."""

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
    buckets = sorted((bucket for buckets in by_server for bucket in buckets), key=lambda bucket: bucket.in_model.start)
    assert buckets[0].in_model.start == 0
    assert buckets[-1].in_model.stop == CIFAR.size
    for bucket, following in pairwise(buckets):
        assert bucket.in_model.stop == following.in_model.start
    assert max(bucket.size for bucket in buckets) * 4 <= BUCKET_BYTES


def test_last_and_first_layer_share_no_bucket() -> None:
    """So the buckets of the last layer can be pushed before backward reaches the first layer."""
    (buckets,) = cut_buckets(IMAGENET.size, 1)
    bucket_indices = buckets_by_parameter(buckets, IMAGENET.parameters)
    last_bias, first_weight = bucket_indices[-1], bucket_indices[0]
    assert set(last_bias).isdisjoint(first_weight)


def test_server_memory_is_below_three_times_the_model(tmp_path: Path) -> None:
    """Through sockets and with momentum, the server stores values, velocity and about one message of each worker."""
    (result,) = paceline.run(
        "alexnet:cifar", runs=str(tmp_path), strategy="ps-sync", layout="p w w", transport="tcp", batch=4,
        stop="steps=8", eval_examples=100,
    )  # fmt: skip
    assert result.status == "ok", result.reason
    server = pl.read_parquet(Path(result.dir) / "samples.parquet").filter(pl.col("host") == "h1")
    model_bytes = 4 * CIFAR.size
    assert server["memory_bytes"].max() < 3 * model_bytes + 2 * BUCKET_BYTES  # type: ignore[operator]
