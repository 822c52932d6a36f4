from paceline.spec.load import experiment
from paceline.spec.sweep import expand, key


def test_sweep_has_every_combination_of_the_lists() -> None:
    runs = expand(experiment({"workload": "logreg", "engine": ["torch", "tensorflow"], "batch": [10, 100, 200]}))
    assert {(run.engine, run.batch) for run in runs} == {
        (engine, batch) for engine in ("torch", "tensorflow") for batch in (10, 100, 200)
    }


def test_repeats_are_the_outermost_loop() -> None:
    runs = expand(experiment({"workload": "logreg", "batch": [10, 20], "repeat": 2}))
    assert [(run.repeat, run.batch) for run in runs] == [(1, 10), (1, 20), (2, 10), (2, 20)]


def test_duplicate_value_makes_one_run() -> None:
    assert len(expand(experiment({"workload": "logreg", "batch": [10, 10]}))) == 1


def test_the_key_of_a_run_does_not_change_when_an_option_is_added() -> None:
    (run,) = expand(experiment({"workload": "logreg"}))
    assert key(run) == "24c9072b3581c64d"
    (scaled,) = expand(experiment({"workload": "logreg", "lr_scale": "linear"}))
    assert key(scaled) != key(run)


def test_keys_differ_between_runs_and_do_not_depend_on_the_sweep_name() -> None:
    first = expand(experiment({"workload": "logreg", "batch": [10, 20], "repeat": 2}))
    again = expand(experiment({"workload": "logreg", "batch": [10, 20], "repeat": 2, "name": "other"}))
    assert len({key(run) for run in first}) == 4
    assert [key(run) for run in first] == [key(run) for run in again]
