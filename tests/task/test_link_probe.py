"""The rate of a link, computed from the progress of a transfer."""

from paceline.task.link_probe import best_rate


def test_the_rate_of_the_best_window_counts() -> None:
    """10 MB/s, with a pause in the middle."""
    progress = [(i * 0.01, i * 100_000) for i in range(21)]
    progress += [(0.5 + i * 0.01, 2_000_000 + i * 100_000) for i in range(21)]
    assert round(best_rate(progress) / 1e6, 6) == 10


def test_a_transfer_shorter_than_a_window_counts_as_a_whole() -> None:
    assert round(best_rate([(0.0, 0), (0.05, 500_000)])) == 10_000_000


def test_the_rate_is_zero_if_nothing_was_received() -> None:
    assert best_rate([(0.0, 0)]) == 0
