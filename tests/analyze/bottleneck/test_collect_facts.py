import polars as pl
import pytest

from paceline.analyze.bottleneck.collect_facts import fuller_direction
from paceline.store.result import Link

LINK = Link(tx_mb_s=10.0, rx_mb_s=10.0, known_from="by --link")


def samples(sent_mb: list[float], received_mb: list[float]) -> pl.DataFrame:
    """Samples of one host, one per second, with what it sent and received in the second before each."""
    frame = pl.DataFrame({"t_s": [float(second) for second in range(len(sent_mb))], "tx": sent_mb, "rx": received_mb})
    totals = {f"external_{name}_bytes": (pl.col(name).cum_sum() * 1e6).cast(pl.Int64) for name in ("tx", "rx")}
    return frame.with_columns(**totals)


def test_a_link_is_as_full_as_the_fuller_of_its_directions_at_each_moment() -> None:
    in_turn = samples([0, 10, 10, 0, 0], [0, 0, 0, 10, 10])
    assert fuller_direction(in_turn, LINK) == pytest.approx(1.0)
    at_once = samples([0, 5, 5, 5, 5], [0, 5, 5, 5, 5])
    assert fuller_direction(at_once, LINK) == pytest.approx(0.5)
    assert fuller_direction(in_turn.head(1), LINK) == 0.0
