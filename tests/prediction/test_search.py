"""The search for the best configuration, with candidates whose true values are known."""

import math
from random import Random

import pytest

from paceline.prediction.search import CLOSE_ENOUGH, Assessment, Candidate, assess


def candidates(*values: float, spread: float = 0.15, cost_s: float = 8.0) -> list[Candidate]:
    return [Candidate(log_value=math.log(value), log_spread=spread, cost_s=cost_s) for value in values]


def search(
    truth: list[float], predicted: list[Candidate], seed: int, budget_s: float = math.inf
) -> tuple[Assessment, float]:
    """Run the search against true values with the noise of repeats; returns its end and the seconds spent."""
    rng, spent = Random(seed), 0.0
    measured: dict[int, list[float]] = {}
    while True:
        found = assess(predicted, measured, seed, budget_s - spent)
        if found.next is None:
            return found, spent
        spent += predicted[found.next].cost_s
        measured.setdefault(found.next, []).append(math.log(truth[found.next]) + rng.gauss(0, 0.03))


def test_what_is_predicted_far_below_the_best_is_never_run() -> None:
    found = assess(candidates(100, 95, 60), {})
    assert found.next in (0, 1)
    assert 2 not in found.alive


def test_one_candidate_is_run_once() -> None:
    found, spent = search([10.0], candidates(9.0), seed=1)
    assert (found.leader, found.next, spent) == (0, None, 8.0)


def test_nothing_is_run_that_does_not_fit_into_the_budget() -> None:
    assert assess(candidates(100, 95), {}, left_s=5).next is None


def test_a_measured_candidate_is_eliminated_by_a_clearly_better_one() -> None:
    found = assess(candidates(100, 100), {0: [math.log(100)] * 2, 1: [math.log(80)] * 2})
    assert found.leader == 0
    assert found.alive == (0,)
    assert found.next is None


def test_equal_candidates_are_ties() -> None:
    value = math.log(100)
    found = assess(candidates(100, 100), {0: [value, value], 1: [value, value - 0.01]})
    assert found.leader == 0
    assert found.ties == (1,)


def test_a_run_corrects_what_is_expected_of_the_others() -> None:
    before = assess(candidates(100, 90), {})
    after = assess(candidates(100, 90), {0: [math.log(70)]})
    assert after.means[1] < before.means[1]
    assert after.spreads[1] < before.spreads[1]


@pytest.mark.parametrize("seed", range(12))
def test_the_winner_is_close_to_the_best(seed: int) -> None:
    rng = Random(seed)
    truth = [rng.uniform(40, 120) for _ in range(16)]
    predicted = candidates(*(value * math.exp(rng.gauss(0, 0.1)) for value in truth), spread=0.12)
    found, _ = search(truth, predicted, seed)
    assert math.log(max(truth)) - math.log(truth[found.leader]) < 2 * CLOSE_ENOUGH


def test_the_mean_regret_is_small_at_a_part_of_the_cost_of_running_all() -> None:
    regrets, shares = [], []
    for seed in range(16):
        rng = Random(1000 + seed)
        truth = [rng.uniform(40, 120) for _ in range(16)]
        predicted = candidates(*(value * math.exp(rng.gauss(0, 0.1)) for value in truth), spread=0.12)
        found, spent = search(truth, predicted, seed)
        regrets.append(1 - truth[found.leader] / max(truth))
        shares.append(spent / (8 * len(truth)))
    assert sum(regrets) / len(regrets) < 0.015
    assert sum(shares) / len(shares) < 0.45
