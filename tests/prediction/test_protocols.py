"""Throughput of simulated strategies against values computed by hand."""

import msgspec
import pytest

from paceline.errors import PredictError
from paceline.prediction.cluster import GOODPUT
from paceline.prediction.costs import WIRE_OVERHEAD
from paceline.prediction.simulate import simulate
from prediction.setups import make_costs, make_setup

STRATEGIES = ("ps-sync", "ps-async", "allreduce")


def layout(strategy: str, workers: int) -> str:
    return " ".join(["p"] * strategy.startswith("ps") + ["w"] * workers)


def test_one_worker_alone_makes_one_step_per_compute_time() -> None:
    found = simulate(make_setup("single", "w", batch=16), make_costs(step_s=0.002, example_s=0.0005), seed=1)
    assert found.updates_per_s == pytest.approx(100, rel=0.01)
    assert found.examples_per_s == pytest.approx(1600, rel=0.01)


def test_a_cpu_limit_slows_down_a_worker_in_proportion() -> None:
    costs = make_costs(step_s=0.01)
    found = simulate(make_setup("single", "w", cpus=0.5), costs, seed=1)
    assert found.updates_per_s == pytest.approx(50, rel=0.02)


def test_a_step_with_a_server_takes_the_sum_of_its_parts() -> None:
    costs = make_costs(step_s=0.004, worker_message_s=0.002, server_message_s=0.003, hop_s=0.0005)
    found = simulate(make_setup("ps-sync", "p w"), costs, seed=1)
    assert found.updates_per_s == pytest.approx(1 / (0.004 + 0.002 + 0.003 + 2 * 0.0005), rel=0.01)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_link_bound_server_carries_every_workers_bytes(workers: int) -> None:
    costs = make_costs(step_s=1e-4, sent_bytes=1e6, received_bytes=1e6)
    setup = make_setup("ps-sync", layout("ps-sync", workers), link_bits_s=80_000_000)
    found = simulate(setup, costs, seed=1, steps=40)
    seconds = 2 * workers * 1e6 / (10e6 * GOODPUT / WIRE_OVERHEAD)
    # A worker whose parameters arrive first sends its next gradients while the others still receive.
    assert (0.95 if workers == 1 else 0.75) * seconds < 1 / found.updates_per_s < 1.01 * seconds


def test_asynchronous_workers_use_both_directions_of_a_link_at_once() -> None:
    costs = make_costs(step_s=1e-4, sent_bytes=1e6, received_bytes=1e6)
    setup = make_setup("ps-async", "p w w w w", link_bits_s=80_000_000)
    found = simulate(setup, costs, seed=1, steps=40)
    one_direction_s = 1e6 / (10e6 * GOODPUT / WIRE_OVERHEAD)
    assert one_direction_s * 0.98 <= 1 / found.updates_per_s <= 1.5 * one_direction_s


def test_what_an_engine_sends_in_addition_passes_the_link_at_the_same_time() -> None:
    costs = make_costs(step_s=1e-4, sent_bytes=1e6, received_bytes=1e6)
    setup = make_setup("ps-sync", "p w", link_bits_s=80_000_000)
    once, twice = (
        simulate(setup, msgspec.structs.replace(costs, repeated=repeated), seed=1, steps=40) for repeated in (0.0, 1.0)
    )
    assert twice.updates_per_s == pytest.approx(once.updates_per_s, rel=0.02)
    for found, copies in ((once, 1), (twice, 2)):
        sent = found.facts.links[0].outbound_mb_s / found.updates_per_s
        assert sent == pytest.approx(copies, rel=0.1)


def test_several_threads_take_the_measured_part_of_the_time_of_one() -> None:
    costs = make_costs(step_s=0.01, threads=2, threaded=0.7)
    found = simulate(make_setup("single", "w"), costs, seed=1)
    assert found.updates_per_s == pytest.approx(1 / 0.007, rel=0.01)
    assert found.facts.workers[0].use.cpu_cores == pytest.approx(2, rel=0.02)


def test_a_busy_server_serves_one_request_at_a_time() -> None:
    costs = make_costs(step_s=0.001, server_message_s=0.01)
    found = simulate(make_setup("ps-async", "p w w w w"), costs, seed=1)
    assert found.updates_per_s == pytest.approx(100, rel=0.02)
    (server,) = found.facts.servers
    assert server.busy == pytest.approx(1, abs=0.02)


def test_a_barrier_waits_for_the_slowest_worker() -> None:
    costs = make_costs(step_s=0.01)
    setup = make_setup("ps-sync", "p w w w w")
    limits = {**setup.limits, "h5": msgspec.structs.replace(setup.limits["h5"], cpus=0.25)}
    slow = msgspec.structs.replace(setup, limits=limits)
    assert simulate(setup, costs, seed=1).updates_per_s == pytest.approx(100, rel=0.02)
    found = simulate(slow, costs, seed=1)
    assert found.updates_per_s == pytest.approx(25, rel=0.05)
    waits = {worker.task: worker.phases.wait / worker.phases.total for worker in found.facts.workers}
    assert waits["w0"] == pytest.approx(0.75, abs=0.05)
    assert waits["w3"] < 0.05


def test_backup_workers_are_not_waited_for() -> None:
    costs = make_costs(step_s=0.01)
    setup = make_setup("ps-sync", "p w w w w", backup=1)
    limits = {**setup.limits, "h5": msgspec.structs.replace(setup.limits["h5"], cpus=0.25)}
    found = simulate(msgspec.structs.replace(setup, limits=limits), costs, seed=1)
    assert found.updates_per_s > 90


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_a_ring_sends_each_byte_twice_but_for_one_part(workers: int) -> None:
    costs = make_costs(step_s=1e-4, sent_bytes=4e6)
    setup = make_setup("allreduce", layout("allreduce", workers), link_bits_s=80_000_000)
    found = simulate(setup, costs, seed=1, steps=30)
    seconds = 2 * (workers - 1) / workers * 4e6 / (10e6 * GOODPUT / WIRE_OVERHEAD)
    assert 1 / found.updates_per_s == pytest.approx(seconds, rel=0.06)


def test_the_rounds_of_a_ring_cost_cpu_time_and_latency() -> None:
    costs = make_costs(step_s=0.01, round_s=0.001, hop_s=0.002)
    found = simulate(make_setup("allreduce", "w w w"), costs, seed=1)
    # Four rounds, in each of which the two halves share the thread that sends and receives.
    assert 1 / found.updates_per_s == pytest.approx(0.01 + 4 * (2 * 0.001 + 0.002), rel=0.15)


@pytest.mark.parametrize("strategy", ["local-sgd", "diloco"])
def test_workers_that_exchange_every_ten_steps_need_a_tenth_of_the_time_for_it(strategy: str) -> None:
    costs = make_costs(step_s=0.01, sent_bytes=4e6)
    base = make_setup(strategy, "w w", link_bits_s=80_000_000)
    exchange_s = 4e6 / (10e6 * GOODPUT / WIRE_OVERHEAD)
    for every in (1, 10):
        found = simulate(msgspec.structs.replace(base, sync_every=every), costs, seed=1, steps=60)
        assert 1 / found.updates_per_s == pytest.approx(0.01 + exchange_s / every, rel=0.06)


def test_workers_a_few_steps_apart_wait_for_the_slowest_in_the_end() -> None:
    """One worker takes four times as long: without a bound the others are not slowed down, with one they are."""
    costs = make_costs(step_s=0.01)
    setup = make_setup("ssp", "p w w")
    limits = {**setup.limits, "h3": msgspec.structs.replace(setup.limits["h3"], cpus=0.25)}
    slow = msgspec.structs.replace(setup, limits=limits)
    assert simulate(slow, costs, seed=1).updates_per_s == pytest.approx(100 + 25, rel=0.03)
    for bound in (0, 3):
        found = simulate(msgspec.structs.replace(slow, staleness_bound=bound), costs, seed=1)
        assert found.updates_per_s == pytest.approx(2 * 25, rel=0.08)
        (quick, _) = found.facts.workers
        assert quick.phases.wait / quick.phases.total == pytest.approx(0.75, abs=0.06)


def test_a_large_model_is_sent_while_it_is_computed() -> None:
    costs = make_costs(step_s=0.9, sent_bytes=60e6, received_bytes=100)
    setup = make_setup("ps-async", "p w", link_bits_s=1_000_000_000)
    found = simulate(setup, costs, seed=1, steps=10)
    transfer_s = 60e6 / (125e6 * GOODPUT / WIRE_OVERHEAD)
    assert 0.9 < 1 / found.updates_per_s < 0.9 + transfer_s / 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_more_bytes_more_work_or_fewer_cores_are_never_faster(strategy: str) -> None:
    costs = make_costs(step_s=0.005, sent_bytes=2e5, received_bytes=2e5, server_message_s=1e-3, round_s=1e-3)
    setup = make_setup(strategy, layout(strategy, 3), link_bits_s=400_000_000, cores=4)
    rate = simulate(setup, costs, seed=3).updates_per_s
    for name in ("sent_bytes", "step_s"):
        changed = msgspec.structs.replace(costs, **{name: 2 * getattr(costs, name)})
        assert simulate(setup, changed, seed=3).updates_per_s < rate
    fewer = msgspec.structs.replace(setup, machine_cores={"machine": 1.0})
    assert simulate(fewer, costs, seed=3).updates_per_s < rate


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_simulation_is_determined_by_its_seed(strategy: str) -> None:
    costs = make_costs(step_s=0.005, sent_bytes=2e5, received_bytes=2e5, step_noise=0.2)
    setup = make_setup(strategy, layout(strategy, 2), link_bits_s=50_000_000, cpus=0.5, cores=2)
    assert simulate(setup, costs, seed=5) == simulate(setup, costs, seed=5)
    assert simulate(setup, costs, seed=5) != simulate(setup, costs, seed=6)


def test_a_strategy_without_a_protocol_is_refused() -> None:
    setup = make_setup("bsp-sgd", "p w")
    with pytest.raises(PredictError, match="strategy bsp-sgd cannot be predicted: its descriptor names no protocol"):
        simulate(setup, make_costs(step_s=0.1), seed=1)
