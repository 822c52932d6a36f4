"""Predictions from runs whose true costs are known."""

import math

import msgspec
import pytest

from paceline.errors import PredictError
from paceline.plan.roles import WORKER
from paceline.prediction.calibrate import calibrate
from paceline.prediction.cluster import Setup
from paceline.prediction.curves import what_if
from paceline.prediction.predictor import Predictor
from paceline.prediction.residuals import Residuals, features
from paceline.prediction.simulate import simulate
from prediction.observations import GIGABIT, MEGABIT, TRUTH, changed, observed, profile
from prediction.setups import make_costs, make_setup

UNSEEN = [
    make_setup("ps-sync", "p w w w", batch=64, link_bits_s=100 * MEGABIT, cores=4),
    make_setup("ps-async", "p w w w", batch=16, link_bits_s=300 * MEGABIT, cores=4),
    make_setup("ps-sync", "p p w w", batch=32, link_bits_s=GIGABIT, cpus=0.5, cores=4),
    make_setup("ps-async", "pw pw", batch=128, link_bits_s=GIGABIT, cores=4),
    make_setup("allreduce", "w w w", batch=256, link_bits_s=100 * MEGABIT, cpus=0.8, cores=4),
]


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor("made", "torch", "tcp", profile())


def test_the_computation_of_a_step_is_recovered() -> None:
    costs = calibrate("made", profile(), make_costs()).costs
    for batch in (16, 64, 256):
        assert costs.compute_s(batch) == pytest.approx(TRUTH.compute_s(batch), rel=0.15)


@pytest.mark.parametrize("setup", UNSEEN, ids=lambda setup: f"{setup.strategy.name}-{setup.batch}")
def test_unseen_configurations_are_predicted(predictor: Predictor, setup: Setup) -> None:
    true = simulate(setup, TRUTH, seed=50).updates_per_s
    found = predictor.predict(setup)
    assert found.updates_per_s.value == pytest.approx(true, rel=0.15)
    assert found.updates_per_s.low < true < found.updates_per_s.high
    workers = setup.workers if setup.strategy.synchronous else 1
    assert found.examples_per_s.value == pytest.approx(found.updates_per_s.value * setup.batch * workers, rel=0.05)


def test_a_prediction_is_reproducible(predictor: Predictor) -> None:
    assert predictor.predict(UNSEEN[0]) == predictor.predict(UNSEEN[0])


def test_a_slow_link_is_named_as_the_bottleneck(predictor: Predictor) -> None:
    found = predictor.predict(make_setup("ps-sync", "p w w", link_bits_s=10 * MEGABIT, cores=4)).bottleneck
    assert (found.cause, found.where.split(",")[0]) == ("network", "h1")


def test_few_cores_are_named_as_the_bottleneck(predictor: Predictor) -> None:
    found = predictor.predict(make_setup("allreduce", "w w w w", batch=512, link_bits_s=GIGABIT, cores=1)).bottleneck
    assert found.cause == "contention"


def test_errors_of_measured_runs_correct_similar_predictions() -> None:
    setup = make_setup("ps-sync", "p w w", batch=64, link_bits_s=GIGABIT, cores=4)
    true = simulate(setup, TRUTH, seed=50).updates_per_s
    slower = [observed(number, setup, factor=0.7) for number in range(5, 9)]
    before = Predictor("made", "torch", "tcp", profile()).predict(setup)
    after = Predictor("made", "torch", "tcp", [*profile(), *slower]).predict(setup)
    assert abs(math.log(after.updates_per_s.value / (0.7 * true))) < 0.1
    assert abs(math.log(before.updates_per_s.value / (0.7 * true))) > 0.2


def test_repeats_narrow_the_interval_and_surprises_widen_it() -> None:
    setup = make_setup("ps-sync", "p w w", batch=64, link_bits_s=GIGABIT, cores=4)
    here = features(setup)
    far = features(make_setup("ps-sync", "p w w w w", batch=512, link_bits_s=10 * MEGABIT, cores=4))
    nothing = Residuals([], []).at(here)[1]
    assert Residuals([here] * 3, [0.02, 0.0, 0.01]).at(here)[1] < nothing
    calm, surprised = (Residuals([here] * 6, [0.01, size, -size, size, -size, 0.0]).at(far)[1] for size in (0.02, 0.4))
    assert calm < nothing < surprised


def test_errors_of_other_workloads_count_less_than_own_ones() -> None:
    here = features(UNSEEN[0], workload="own")
    own, other = (Residuals([features(UNSEEN[0], workload=name)], [0.1]).at(here) for name in ("own", "other"))
    nothing = Residuals([], []).at(here)
    assert nothing[0] < other[0] < own[0]
    assert nothing[1] > other[1] > own[1]


def test_the_computation_with_several_threads_is_known_from_its_duration() -> None:
    (single,) = (run for run in profile() if run.setup.batch == 32)
    spinning = tuple(changed(task, threads=2, cpu_s=5 * task.cpu_s) for task in single.tasks if task.role == WORKER)
    setup = make_setup("ps-async", "p w", batch=32, cores=4)
    seconds = 0.7 * TRUTH.compute_s(32)
    threaded = changed(single, setup=setup, tasks=spinning, compute_seconds=seconds)
    costs = calibrate("made", [*profile(), threaded], make_costs()).costs
    assert costs.compute_s(32) == pytest.approx(TRUTH.compute_s(32), rel=0.1)
    assert costs.compute_s(32) * costs.threaded == pytest.approx(seconds, rel=0.1)


def test_messages_that_were_not_cut_into_packets_do_not_make_packets_cheap() -> None:
    setup = make_setup("ps-async", "p w", batch=32, link_bits_s=100 * MEGABIT, cores=4)
    free = msgspec.structs.replace(TRUTH, sent_bytes=31_000, received_bytes=31_000, packet_s=0.0, worker_message_s=0)
    runs = [observed(number, setup, free) for number in range(3)]
    counted = [changed(run, packets=4.0) for run in runs]
    cheap, usual = (calibrate("made", each, make_costs()).costs.packet_s for each in (runs, counted))
    assert cheap < 0.8 * usual


def test_background_load_makes_a_run_say_less() -> None:
    here = features(UNSEEN[0])
    quiet, disturbed = (Residuals([here], [0.3], [spread]).at(here) for spread in (0.0, 0.4))
    assert abs(quiet[0]) > abs(disturbed[0])
    assert quiet[1] < disturbed[1]


def test_a_strategy_that_was_never_measured_is_said_and_widens_the_interval() -> None:
    ring = UNSEEN[-1]
    known = Predictor("made", "torch", "tcp", profile()).predict(ring)
    unknown = Predictor("made", "torch", "tcp", profile()[:2]).predict(ring)
    assert known.not_measured == ()
    assert "allreduce with made" in unknown.not_measured
    assert unknown.log_spread > known.log_spread


def test_runs_of_other_workloads_tell_the_cost_of_messages() -> None:
    own, others = profile()[:2], [changed(run, workload="other") for run in profile()]
    alone, helped = (Predictor("made", "torch", "tcp", runs) for runs in (own, [*own, *others]))
    assert helped.cost_spread(UNSEEN[-1]) < alone.cost_spread(UNSEEN[-1])
    assert "messages without parameter servers" in alone.predict(UNSEEN[-1]).not_measured
    assert "messages without parameter servers" not in helped.predict(UNSEEN[-1]).not_measured


def test_another_workload_is_refused_with_the_run_to_make() -> None:
    with pytest.raises(PredictError, match=r"none of the 3 runs trained lenet with torch .*: make one first"):
        Predictor("lenet", "torch", "tcp", profile())


def test_what_if_curves_contain_the_measured_runs() -> None:
    runs = profile()
    curves = {curve.axis: curve for curve in what_if(runs[2], [*runs, observed(7, with_workers(runs[2].setup))])}
    assert set(curves) == {"link", "workers", "batch"}
    assert [point.run for point in curves["workers"].measured] == ["run-2", "run-7"]
    rates = [point.updates_per_s.value for point in curves["link"].points]
    assert rates[0] < rates[2] < rates[4]
    for curve in curves.values():
        assert curve.base in [point.x for point in curve.points]
        assert all(p.updates_per_s.low < p.updates_per_s.value < p.updates_per_s.high for p in curve.points)
    assert msgspec.json.decode(msgspec.json.encode(list(curves.values())))[0]["axis"] == "link"


def with_workers(setup: Setup) -> Setup:
    return make_setup("allreduce", "w w w", batch=setup.batch, link_bits_s=200 * MEGABIT, cores=4)
