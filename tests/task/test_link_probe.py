from paceline.task.link_probe import best_rate


def test_the_fullest_stretch_counts() -> None:
    """10 MB/s, but for a pause in the middle."""
    seen = [(i * 0.01, i * 100_000) for i in range(21)]
    seen += [(0.5 + i * 0.01, 2_000_000 + i * 100_000) for i in range(21)]
    assert round(best_rate(seen) / 1e6, 6) == 10


def test_of_less_than_a_stretch_the_whole_counts() -> None:
    assert round(best_rate([(0.0, 0), (0.05, 500_000)])) == 10_000_000


def test_nothing_received_is_nothing() -> None:
    assert best_rate([(0.0, 0)]) == 0
