"""The grid of predictions that the sliders of a page move over."""

from itertools import count, product

import msgspec
import pytest

from paceline.prediction.grid import NO_LIMIT, what_if_grid
from paceline.prediction.predictor import Predictor
from prediction.observations import GIGABIT, MEGABIT, changed, observed, profile
from prediction.setups import make_setup


def test_settings_like_the_measured_one_are_predicted_first() -> None:
    runs = profile()
    ticks = count()
    grid = what_if_grid(runs[0], runs, budget_s=16.5, clock=lambda: float(next(ticks)))
    assert (GIGABIT in grid.links, 1 in grid.workers, 32 in grid.batches) == (True, True, True)
    places = list(product(grid.links, grid.workers, grid.batches))
    found = {place: point for place, point in zip(places, grid.points, strict=True) if point}
    base = (float(GIGABIT), 1, 32)
    # There was time for 17 of 180: those in which at most one setting differs from the measured run come first.
    assert len(found) == 17
    changes = [sum(one != other for one, other in zip(place, base, strict=True)) for place in found]
    assert sorted(changes) == [0, *[1] * 14, 2, 2]
    prediction = Predictor("made", "torch", "tcp", runs).predict(runs[0].setup)
    assert found[base].updates_per_s == pytest.approx(prediction.updates_per_s.value, rel=0.05)
    assert all(point.low < point.updates_per_s < point.high for point in found.values())
    slow, fast = found[grid.links[0], 1, 32], found[grid.links[-1], 1, 32]
    assert slow.updates_per_s < fast.updates_per_s
    assert msgspec.json.decode(msgspec.json.encode(grid))["base"]["run"] == "run-0"


def test_runs_that_differ_in_several_of_the_settings_are_measured_points() -> None:
    runs = profile()
    both = observed(8, make_setup("ps-async", "p w w", batch=64, link_bits_s=200 * MEGABIT, cores=4))
    ticks = count()
    grid = what_if_grid(runs[0], [*runs, both, changed(both, workload="other")], 1.0, lambda: float(next(ticks)))
    assert [(one.run, one.link, one.workers, one.batch) for one in grid.measured] == [
        ("run-0", GIGABIT, 1, 32),
        ("run-8", 200 * MEGABIT, 2, 64),
    ]
    assert 200 * MEGABIT in grid.links


def test_links_without_a_known_rate_stay_as_they_are() -> None:
    runs = [observed(0, make_setup("ps-async", "pw w", batch=32, cores=4))]
    ticks = count()
    grid = what_if_grid(runs[0], runs, 3.0, lambda: float(next(ticks)))
    assert grid.links == (NO_LIMIT,)
    assert sum(point is not None for point in grid.points) >= 2
