import struct
import tempfile
import zlib
from pathlib import Path

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from paceline.errors import StoreError
from paceline.messages import HostSample, LinkCount, TaskSample
from paceline.recording.layout import RECORD_BYTES, RecordKind
from paceline.recording.reader import RecordReader, truncate_unused
from paceline.recording.recorder import Recorder, clock_ns
from paceline.store import tables
from paceline.store.checksums import write_checksums
from paceline.store.journal import (
    ClockOffset,
    HostSamples,
    Journal,
    Restored,
    TaskAdded,
    TaskRecords,
    read_journal,
)
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from paceline.store.tables import TASK_FIELDS
from paceline.store.writer import consolidate
from support.journal_tables import tables_of
from support.scarce_resources import fill, needs_root, small_disk


def sample(t_ns: int) -> HostSample:
    return HostSample(t_ns, 1.0, [0.5, 0.25], 100, LinkCount(1, 2, 3, 4), LinkCount(5, 6, 7, 8), 9, 10, [])


def test_entries_become_tables_on_the_runs_clock(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "records")
    recorder.write(RecordKind.COMPUTE, 5_000_000_000, 1_000_000)
    recorder.evaluation(6_000_000_000, 10, 0.5, 0.9, final=True)
    journal = Journal(tmp_path / "journal")
    journal.add(TaskAdded("w0", "h1"))
    journal.add(TaskRecords("w0", RecordReader(tmp_path / "records").new()))
    journal.add(HostSamples("h1", [sample(5_500_000_000)]))
    journal.add(ClockOffset("h1", -4_000_000_000, 10))
    journal.close()
    steps, samples = tables_of(tmp_path / "journal")
    assert steps["t_s"].to_list() == [1.0, 2.0]
    assert steps["kind"].to_list() == ["compute", "eval"]
    assert steps["host"].to_list() == ["h1", "h1"]
    assert abs(steps["accuracy"][1] - 0.9) < 1e-6
    assert steps["final"].to_list() == [False, True]
    assert samples["t_s"].to_list() == [1.5]
    assert samples["loopback_rx_bytes"].to_list() == [5]


@pytest.mark.parametrize("records_at_once", [1, 20_000])
def test_steps_after_the_checkpoint_to_which_all_tasks_returned_are_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records_at_once: int
) -> None:
    """Steps are made twice after each return; of each step exactly one row is not undone, in whichever part it is."""
    monkeypatch.setattr(tables, "_BYTES_AT_ONCE", records_at_once * RECORD_BYTES)
    recorder, reader = Recorder(tmp_path / "records"), RecordReader(tmp_path / "records")
    journal = Journal(tmp_path / "journal")
    journal.add(TaskAdded("w0", "h1"))
    for returns_to, first, last in ((3, 0, 6), (2, 3, 5), (None, 2, 8)):
        for step in range(first, last):
            recorder.current.start_ns = recorder.current.data_end_ns = clock_ns()
            recorder.current.step = step
            recorder.end_step(clock_ns(), step + 1, 0.5)
            if step == 3:
                recorder.evaluation(clock_ns(), step + 1, 0.5, 0.9, final=False)
        journal.add(TaskRecords("w0", reader.new()))
        if returns_to is not None:
            journal.add(Restored(returns_to))
    steps, _ = tables_of(tmp_path / "journal")
    made = steps.filter(pl.col("kind") == "step")
    assert made.filter(~pl.col("undone"))["step"].to_list() == list(range(8))
    assert made["undone"].to_list() == [False] * 2 + [True] * 6 + [False] * 6
    assert steps.filter(pl.col("kind") == "eval")["undone"].to_list() == [True, True, False]
    phases = steps.filter((pl.col("kind") == "data") & ~pl.col("undone"))
    assert phases["step"].to_list() == list(range(8))


def test_a_torn_tail_costs_only_itself(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    for number in range(3):
        journal.add(TaskAdded(f"w{number}", "h1"))
    journal.close()
    whole = (tmp_path / "journal").read_bytes()
    for cut in range(len(whole)):
        (tmp_path / "torn").write_bytes(whole[:cut])
        kept = list(read_journal(tmp_path / "torn"))
        assert kept == [TaskAdded(f"w{number}", "h1") for number in range(3)][: len(kept)]
        assert len(kept) >= 3 * cut // len(whole) - 1


@given(st.binary(max_size=300))
def test_any_bytes_read_as_some_entries(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        tables_of(Path(file.name))


@needs_root
def test_a_full_disk_costs_only_what_did_not_fit(tmp_path: Path) -> None:
    with small_disk(tmp_path, "64k"):
        journal, kept = Journal(tmp_path / "journal"), 0
        try:
            while kept < 1000:
                journal.add(TaskRecords("w0", b"x" * 3000))
                kept += 1
        except OSError as error:
            assert "No space" in str(error)
        journal.add(TaskAdded("w1", "h1"))
        journal.close()
        assert 10 < kept < 1000
        assert len(list(read_journal(tmp_path / "journal"))) == kept + 1


@needs_root
@pytest.mark.parametrize("room_in_spool", [False, True])
def test_what_there_is_no_room_to_make_tables_of_is_kept_until_there_is(tmp_path: Path, room_in_spool: bool) -> None:
    """With what nobody had collected. Room that was set aside for more of it is given back first."""
    with small_disk(tmp_path, "20m"):
        paths = RunPaths(tmp_path)
        journal = Journal(paths.journal)
        journal.add(TaskAdded("w0", "h1"))
        journal.add(ClockOffset("h1", 0, 0))
        journal.add(HostSamples("h1", [sample(1_000_000_000)] * 1000))
        journal.close()
        (paths.spool / "h1").mkdir(parents=True)
        recorder = Recorder(paths.spool / "h1" / "w0.records")
        recorder.current.start_ns = clock_ns()
        recorder.end_step(clock_ns(), update=1, loss=0.5)
        recorder.close()
        if not room_in_spool:
            truncate_unused(paths.spool / "h1" / "w0.records")
        filler = fill(tmp_path)
        if not room_in_spool:
            with pytest.raises(OSError, match="No space left"):
                consolidate(paths)
            assert {path.name for path in tmp_path.iterdir()} == {"journal.bin", "spool", "filler"}
            filler.unlink()
        consolidate(paths)
        assert not paths.journal.exists()
        assert not paths.spool.exists()
        assert len(StoredRun(paths).samples) == 1000
        assert StoredRun(paths).steps["loss"].to_list() == [0.5]


def test_a_run_from_before_tasks_told_how_long_they_waited_for_a_core_can_be_read(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    new = sample(1_000_000_000)
    for task in (TaskSample("w0", 0.5, 9, 3, 0.25), TaskSample("w0", 0.5, 9, 3)):
        paths.journal.unlink(missing_ok=True)
        journal = Journal(paths.journal)
        journal.add(ClockOffset("h1", 0, 0))
        journal.add(HostSamples("h1", [structs.replace(new, tasks=[task])]))
        journal.close()
        consolidate(paths)
        assert StoredRun(paths).samples["tasks"].to_list() == [[structs.asdict(task)]]
    # The same table as it was written then, with one field less for each task.
    old = pl.List(pl.Struct({name: kind for name, kind in TASK_FIELDS.items() if name != "run_wait_s"}))
    pl.read_parquet(paths.samples).cast({"tasks": old}).write_parquet(paths.samples)
    write_checksums(paths)
    assert pl.read_parquet(paths.samples)["tasks"].to_list() == [
        [{"task": "w0", "cpu_s": 0.5, "rss_bytes": 9, "threads": 3}]
    ]
    assert StoredRun(paths).samples["tasks"].to_list() == [[structs.asdict(task)]]


def test_samples_without_a_time_on_the_runs_clock_are_left_out(tmp_path: Path) -> None:
    """A run that is interrupted while its hosts start has samples of hosts whose clocks were not compared yet."""
    journal = Journal(tmp_path / "journal")
    journal.add(HostSamples("h1", [sample(29_267_000_000_000)]))
    journal.add(HostSamples("h2", [sample(29_267_000_000_000)]))
    journal.add(ClockOffset("h2", -29_266_000_000_000, 10))
    journal.close()
    _, samples = tables_of(tmp_path / "journal")
    assert samples.select("host", "t_s").rows() == [("h2", 1.0)]


def test_an_older_journal_is_read_with_what_it_knew(tmp_path: Path) -> None:
    body = msgspec.msgpack.decode(msgspec.msgpack.encode(HostSamples("h1", [sample(1)])))
    before_tasks = HostSample.__struct_fields__.index("tasks")
    body[2][0] = [*body[2][0][:before_tasks], [["w0", 0.5, 9, 3]]]
    data = msgspec.msgpack.encode(body)
    (tmp_path / "journal").write_bytes(struct.pack("<II", len(data), zlib.crc32(data)) + data)
    (entry,) = read_journal(tmp_path / "journal")
    assert isinstance(entry, HostSamples)
    assert entry.samples[0].tasks == [TaskSample("w0", 0.5, 9, 3, None)]
    assert entry.samples[0].load_average is None


@pytest.mark.parametrize("tag", ["TaskRecords", "TaskRecords2", "TaskRecords3", "TaskRecords4"])
def test_records_of_an_older_version_are_refused_and_kept(tmp_path: Path, tag: str) -> None:
    body = msgspec.msgpack.encode([tag, "w0", bytes(40)])
    (tmp_path / "journal").write_bytes(struct.pack("<II", len(body), zlib.crc32(body)) + body)
    with pytest.raises(StoreError, match="older version"):
        list(read_journal(tmp_path / "journal"))
