from paceline.spec.load import experiment
from paceline.spec.sweep import expand, key


def test_lists_become_the_product() -> None:
    runs = expand(experiment({"workload": "logreg", "engine": ["torch", "tensorflow"], "batch": [10, 100, 200]}))
    assert {(run.engine, run.batch) for run in runs} == {
        (e, b) for e in ("torch", "tensorflow") for b in (10, 100, 200)
    }


def test_repeats_come_round_by_round() -> None:
    runs = expand(experiment({"workload": "logreg", "batch": [10, 20], "repeat": 2}))
    assert [(run.repeat, run.batch) for run in runs] == [(1, 10), (1, 20), (2, 10), (2, 20)]


def test_a_value_given_twice_is_one_run() -> None:
    assert len(expand(experiment({"workload": "logreg", "batch": [10, 10]}))) == 1


def test_keys_tell_runs_apart_and_are_stable() -> None:
    first = expand(experiment({"workload": "logreg", "batch": [10, 20], "repeat": 2}))
    again = expand(experiment({"workload": "logreg", "batch": [10, 20], "repeat": 2, "name": "other"}))
    assert len({key(run) for run in first}) == 4
    assert [key(run) for run in first] == [key(run) for run in again]
