import polars as pl
import pytest

from paceline.analyze.hosts import background_cores, host_results
from paceline.messages import HostSample, LinkCount
from paceline.store.result import HostResult
from paceline.store.tables import sample_rows


def samples(cpu: list[float], sent: list[int], *, hz: float = 10) -> pl.DataFrame:
    taken = [
        HostSample(
            int(i / hz * 1e9),
            cpu[i],
            [cpu[i], 0.0],
            5_000_000 * (i + 1),
            LinkCount(tx_bytes=sent[i], tx_packets=sent[i] // 1_000),
            LinkCount(),
            0,
            i,
            [],
            load_average=1.0 + i,
            memory_free_bytes=1_000_000_000 - i * 1_000_000,
        )
        for i in range(len(cpu))
    ]
    return sample_rows("h1", taken, ())


def of(table: pl.DataFrame, start_s: float, end_s: float) -> HostResult:
    (host,) = host_results(table, start_s=start_s, end_s=end_s, tasks={"h1": ["w0"]}, scopes={})
    return host


def test_means_are_over_the_training_only() -> None:
    """One second of half a core, then one of a full core."""
    cpu = [min(i, 10) * 0.05 + max(0, i - 10) * 0.1 for i in range(21)]
    table = samples(cpu, [i * 1_000_000 for i in range(21)])
    assert of(table, 0.0, 1.0).cpu_cores_mean == pytest.approx(0.5)
    assert of(table, 1.0, 2.0).cpu_cores_mean == pytest.approx(1.0)
    whole = of(table, 0.0, 2.0)
    assert whole.cpu_cores_mean == pytest.approx(0.75)
    assert whole.cpu_cores_max == pytest.approx(1.0)
    assert whole.external.tx_mb_s_mean == pytest.approx(10.0)
    assert whole.external.rx_mb_s_mean == 0
    assert whole.memory_mb_max == pytest.approx(105)
    assert whole.memory_mb_mean == pytest.approx(55)
    assert whole.memory_free_mb_mean == pytest.approx(990)
    assert whole.memory_free_mb_min == pytest.approx(980)
    assert (whole.load_average_mean, whole.load_average_max) == (11.0, 21.0)


def test_a_burst_shorter_than_the_window_is_averaged_over_it() -> None:
    sent = [0, 0, 0, 0, 0, 1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000]
    assert of(samples([0.0] * 11, sent), 0.0, 1.0).external.tx_mb_s_max == pytest.approx(2.0)
    assert of(samples([0.0] * 11, sent), 0.0, 1.0).external.tx_packets_s_max == pytest.approx(2_000)


def test_a_busiest_core_is_never_busier_than_all_the_time() -> None:
    assert of(samples([i * 0.2 for i in range(11)], [0] * 11), 0.0, 1.0).busiest_core_max == 1.0


def test_a_training_shorter_than_a_sample_is_taken_from_its_neighbours() -> None:
    host = of(samples([i * 0.05 for i in range(11)], [0] * 11), 0.42, 0.43)
    assert host.cpu_cores_mean == pytest.approx(0.5)


def test_no_samples_are_zeros() -> None:
    assert of(sample_rows("h1", [], ()), 0.0, 1.0).cpu_cores_mean == 0


def test_the_load_of_other_programs_is_the_same_each_time_it_is_computed() -> None:
    """Agents sample at different moments, so the hosts of one machine see its cores differently."""
    first = samples([i * 0.01 for i in range(11)], [0] * 11)
    second = samples([i * 0.03 for i in range(11)], [0] * 11).with_columns(host=pl.lit("h2"))
    both = pl.concat([first, second]).with_columns(
        cores_busy_s=pl.when(pl.col("host") == "h1")
        .then(pl.concat_list(pl.col("t_s")))
        .otherwise(pl.concat_list(pl.col("t_s") * 2))
    )
    shuffled = [both.sample(fraction=1.0, shuffle=True, seed=seed) for seed in range(20)]
    first_result, *other_results = [background_cores(one, start_s=0.0, end_s=1.0, shared=True) for one in shuffled]
    assert first_result == pytest.approx(dict.fromkeys(("h1", "h2"), 1.0 - 0.1 - 0.3))
    assert all(result == first_result for result in other_results)


def test_the_load_of_other_programs_is_counted_on_each_machine_by_itself() -> None:
    half_a_core = [i * 0.05 for i in range(11)]
    first = samples(half_a_core, [0] * 11).with_columns(cores_busy_s=pl.concat_list(pl.col("t_s")))
    second = samples(half_a_core, [0] * 11).with_columns(
        host=pl.lit("h2"), cores_busy_s=pl.concat_list(pl.col("t_s") * 2)
    )
    both = pl.concat([first, second])
    found = background_cores(both, start_s=0.0, end_s=1.0, shared=False)
    assert found == pytest.approx({"h1": 0.5, "h2": 1.5})
