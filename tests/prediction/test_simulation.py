"""The simulation against cases that can be computed by hand."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.prediction.simulator.hosts import Host, Job, Machine
from paceline.prediction.simulator.simulation import (
    Acquire,
    Await,
    Compute,
    Gate,
    Lock,
    Process,
    Send,
    Simulation,
    Sleep,
)


class Cluster:
    """A simulation whose processes note when they end."""

    def __init__(self, cores: float = 1.0, **host_options: float) -> None:
        self.simulation = Simulation(seed=1)
        self.machine = Machine(cores)
        self.host_options = host_options
        self.ends: dict[str, float] = {}

    def host(self, name: str) -> Host:
        return self.simulation.add_host(name, self.machine, **self.host_options)

    def start(self, name: str, *requests: Compute | Send | Sleep | Acquire | Await) -> None:
        def process() -> Process:
            yield from requests
            self.ends[name] = self.simulation.now

        self.simulation.spawn(process())


def test_a_job_alone_takes_its_cpu_time() -> None:
    cluster = Cluster()
    cluster.start("a", Compute(cluster.host("h1"), 0.25, "w0"))
    cluster.simulation.run(10)
    assert cluster.ends == {"a": pytest.approx(0.25)}
    assert cluster.simulation.cpu_s["w0"] == pytest.approx(0.25)
    assert cluster.simulation.core_wait_s["w0"] == 0


def test_jobs_share_the_cores_of_their_machine() -> None:
    cluster = Cluster(cores=2)
    for name in ("a", "b", "c"):
        cluster.start(name, Compute(cluster.host(f"h{name}"), 0.2, name))
    cluster.simulation.run(10)
    # Three jobs on two cores, which are busy for 85 % of the time: each runs at 0.85 x 2/3 of the speed.
    assert list(cluster.ends.values()) == pytest.approx([0.2 / 0.85 * 3 / 2] * 3)
    assert cluster.simulation.core_wait_s["a"] == pytest.approx(0.2 / 0.85 * 3 / 2 - 0.2)


def test_as_many_jobs_as_cores_do_not_slow_each_other_down() -> None:
    cluster = Cluster(cores=2)
    for name in ("a", "b"):
        cluster.start(name, Compute(cluster.host(f"h{name}"), 0.2, name))
    cluster.simulation.run(10)
    assert list(cluster.ends.values()) == pytest.approx([0.2] * 2)


def test_a_job_with_two_threads_uses_two_cores() -> None:
    cluster = Cluster(cores=2)
    cluster.start("a", Compute(cluster.host("h1"), 0.2, "w0", threads=2))
    cluster.simulation.run(10)
    assert cluster.ends["a"] == pytest.approx(0.1)


@pytest.mark.parametrize("cpus", [0.25, 0.5, 0.8])
def test_a_cpu_limit_stretches_long_work(cpus: float) -> None:
    cluster = Cluster(cores=2, cpus=cpus)
    cluster.start("a", Compute(cluster.host("h1"), 1.0, "w0"))
    cluster.simulation.run(100)
    assert cluster.ends["a"] == pytest.approx(1.0 / cpus, rel=0.02)


def test_work_within_one_quota_is_not_throttled() -> None:
    cluster = Cluster(cores=2, cpus=0.5)
    cluster.start("a", Compute(cluster.host("h1"), 0.004, "w0"))
    cluster.simulation.run(1)
    assert cluster.ends["a"] == pytest.approx(0.004)


def test_a_thread_on_a_second_core_waits_if_the_first_core_took_the_whole_quota() -> None:
    # 0.5 CPUs are 5 ms in each period of 10 ms, and a core takes 5 ms at once.
    host = Host("h1", Machine(2), 0.5, phase=1.0)
    first, second = (Job(0.004, 1.0, "w0", None) for _ in range(2))
    host.add(first, 0, 0.0)
    host.add(second, 1, 0.0)
    assert (first.queue.throttled, second.queue.throttled) == (False, True)
    assert host.update(0.010)
    assert not second.queue.throttled


def test_a_core_that_becomes_idle_gives_most_of_its_slice_back() -> None:
    host = Host("h1", Machine(2), 0.5, phase=1.0)
    first, second = (Job(0.001, 1.0, "w0", None) for _ in range(2))
    host.add(first, 0, 0.0)
    first.queue.left_s -= 0.001
    host.remove([first])
    host.add(second, 1, 0.001)
    # Of 5 ms, 1 ms is used and 1 ms stays with the first core.
    assert second.queue.left_s == pytest.approx(0.003)


def test_a_transfer_takes_its_size_over_the_rate_without_the_burst() -> None:
    cluster = Cluster(link_bytes_s=1e6)
    cluster.host("h1"), cluster.host("h2")
    cluster.start("a", Send("h1", "h2", 1e6))
    cluster.simulation.run(10)
    # 10,000 bytes pass at once, because the link was idle.
    assert cluster.ends["a"] == pytest.approx(0.99)


def test_two_senders_share_the_downlink_of_the_receiver() -> None:
    cluster = Cluster(link_bytes_s=1e6)
    for name in ("h1", "h2", "h3"):
        cluster.host(name)
    for name in ("h1", "h2"):
        cluster.start(name, Send(name, "h3", 1e6))
    cluster.simulation.run(10)
    assert max(cluster.ends.values()) == pytest.approx(1.99, rel=0.01)


def test_directions_of_a_link_do_not_share_its_rate() -> None:
    cluster = Cluster(link_bytes_s=1e6)
    cluster.host("h1"), cluster.host("h2")
    cluster.start("a", Send("h1", "h2", 1e6))
    cluster.start("b", Send("h2", "h1", 1e6))
    cluster.simulation.run(10)
    assert list(cluster.ends.values()) == pytest.approx([0.99, 0.99])


def test_nothing_is_sent_between_tasks_of_one_host() -> None:
    cluster = Cluster(link_bytes_s=1e6)
    cluster.host("h1")
    cluster.start("a", Send("h1", "h1", 1e9))
    cluster.simulation.run(10)
    assert cluster.ends["a"] == 0
    assert cluster.simulation.links["h1"][0].bytes == 0


def test_a_lock_is_held_by_one_process_at_a_time() -> None:
    cluster, lock = Cluster(cores=4), Lock()
    host = cluster.host("h1")

    def process(name: str) -> Process:
        yield Acquire(lock)
        yield Compute(host, 0.1, name)
        cluster.simulation.release(lock)
        cluster.ends[name] = cluster.simulation.now

    for name in ("a", "b", "c"):
        cluster.simulation.spawn(process(name))
    cluster.simulation.run(1)
    assert cluster.ends == pytest.approx({"a": 0.1, "b": 0.2, "c": 0.3})


def test_a_gate_opens_after_its_last_signal() -> None:
    cluster, gate = Cluster(), Gate(2)
    cluster.start("a", Await(gate))

    def signals() -> Process:
        for _ in range(2):
            yield Sleep(0.3)
            cluster.simulation.signal(gate)

    cluster.simulation.spawn(signals())
    cluster.simulation.run(1)
    assert cluster.ends["a"] == pytest.approx(0.6)


@settings(max_examples=60, deadline=None)
@given(
    works=st.lists(st.floats(0.001, 0.05), min_size=1, max_size=8),
    cores=st.integers(1, 4),
    cpus=st.one_of(st.none(), st.floats(0.1, 2.0)),
)
def test_no_cpu_time_is_lost_or_invented(works: list[float], cores: int, cpus: float | None) -> None:
    cluster = Cluster(cores=cores)
    hosts = [cluster.simulation.add_host(f"h{n}", cluster.machine, cpus=cpus) for n in range(2)]
    for number, cpu_s in enumerate(works):
        cluster.start(str(number), Compute(hosts[number % 2], cpu_s, f"w{number}"))
    cluster.simulation.run(100)
    assert len(cluster.ends) == len(works)
    assert sum(cluster.simulation.cpu_s.values()) == pytest.approx(sum(works))
    # No faster than all cores, nor than one core for the longest work.
    assert max(cluster.ends.values()) >= max(sum(works) / cores, max(works)) - 1e-9


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.floats(1e4, 1e6), min_size=1, max_size=6), seed=st.integers(0, 9), spread=st.floats(0.0, 1.0))
def test_links_are_work_conserving(sizes: list[float], seed: int, spread: float) -> None:
    simulation, ends = Simulation(seed, spread), []
    machine = Machine(1)
    for number in range(len(sizes) + 1):
        simulation.add_host(f"h{number}", machine, link_bytes_s=1e6)

    def send(number: int, size: float) -> Process:
        yield Send(f"h{number}", "h0", size)
        ends.append(simulation.now)

    for number, size in enumerate(sizes, 1):
        simulation.spawn(send(number, size))
    simulation.run(1000)
    # All share one downlink, which is never idle and never faster than its rate, but for the burst.
    assert math.isclose(max(ends), sum(sizes) / 1e6, rel_tol=0.02, abs_tol=0.011)


def test_equal_seeds_give_equal_results() -> None:
    def end(seed: int) -> list[float]:
        simulation, ends = Simulation(seed, 0.5), []
        machine = Machine(1)
        for number in range(3):
            simulation.add_host(f"h{number}", machine, link_bytes_s=1e6, cpus=0.3)

        def send(number: int) -> Process:
            for _ in range(20):
                yield Send(f"h{number}", "h0", 5e4)
            ends.append(simulation.now)

        for number in (1, 2):
            simulation.spawn(send(number))
        simulation.run(1000)
        return ends

    assert end(1) == end(1)
    assert end(1) != end(2)
