"""Damaged run directories: readable parts are shown, damage is reported in one line, and other runs stay visible."""

import shutil
import struct
import tracemalloc
import zlib
from pathlib import Path

import msgspec
import pytest

from fuzz.mutations import mutants, quick_and_thorough
from paceline.analyze.load import load_result
from paceline.cli.main import run_command
from paceline.errors import StoreError
from paceline.messages import HostSample, LinkCount
from paceline.recording.layout import RECORD_BYTES, RecordKind
from paceline.recording.reader import RecordReader
from paceline.recording.recorder import Recorder
from paceline.store import result as results
from paceline.store.checksums import write_checksums
from paceline.store.events import parse_event
from paceline.store.journal import ClockOffset, Entry, HostSamples, Journal, TaskAdded, TaskRecords, read_journal
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from paceline.store.writer import consolidate
from report.stored import store_run
from support.journal_tables import tables_of

SAMPLE = HostSample(1, 1.0, [0.5, 0.25], 100, LinkCount(1, 2, 3, 4), LinkCount(5, 6, 7, 8), 9, 10, [])
ENTRIES: list[Entry] = [
    TaskAdded("w0", "h1"), ClockOffset("h1", -5, 3), TaskRecords("w0", bytes(2 * RECORD_BYTES)),
    HostSamples("h1", [SAMPLE]),
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    return store_run(tmp_path / "runs", name="broken", steps=20, incident="something happened")


def journal_frame(body: bytes) -> bytes:
    """The body with its length and checksum, as the journal stores it."""
    return struct.pack("<II", len(body), zlib.crc32(body)) + body


@quick_and_thorough()
def test_damaged_journal_gives_only_entries_that_were_written(tmp_path: Path, cases: int) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    for entry in ENTRIES:
        journal.add(entry)
    journal.close()
    good = path.read_bytes()
    for number, data in enumerate(mutants([good], cases)):
        path.write_bytes(data)
        kept = list(read_journal(path))
        # Checksums detect changed entries, but not entries that are missing, repeated or out of order.
        assert all(entry in ENTRIES for entry in kept)
        if number % 100 == 0:
            tables_of(path)


@quick_and_thorough(400, 20_000)
def test_invalid_entries_with_a_valid_checksum_do_not_stop_the_tables(tmp_path: Path, cases: int) -> None:
    path = tmp_path / "journal"
    bodies = [msgspec.msgpack.encode(entry) for entry in ENTRIES]
    for data in mutants(bodies, cases):
        path.write_bytes(journal_frame(data) + journal_frame(bodies[0]))
        tables_of(path)


@pytest.mark.parametrize("size", [2**28 - 1, 2**28, 2**32 - 1])
def test_sizes_claimed_by_a_journal_allocate_no_memory(tmp_path: Path, size: int) -> None:
    (tmp_path / "journal").write_bytes(struct.pack("<II", size, 0) + b"x" * 100)
    tracemalloc.start()
    try:
        assert list(read_journal(tmp_path / "journal")) == []
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_nested_lists_and_invalid_text_end_a_journal(tmp_path: Path) -> None:
    tag = msgspec.msgpack.encode("TaskAdded")
    for body in (
        b"\x94" + tag + b"\xa1a\xa1h" + b"\x91" * 100_000 + b"\xc0",
        b"\x93" + tag + b"\xa2\xff\xff\xa1h",
        msgspec.msgpack.encode(["HostSamples", "h1", [[2**64 - 1, 1.0, [], 1, [], [], 1, 1, []]]]),
    ):
        (tmp_path / "journal").write_bytes(journal_frame(body))
        tables_of(tmp_path / "journal")
        assert list(read_journal(tmp_path / "journal")) == []


@quick_and_thorough()
def test_any_line_is_a_well_formed_event_or_skipped(run: RunPaths, cases: int) -> None:
    lines = run.events.read_bytes().splitlines()
    kept = 0
    for line in mutants(lines, cases):
        if event := parse_event(line):
            kept += 1
            assert isinstance(event["event"], str)
            assert isinstance(event["t_s"], int | float)
    assert kept
    assert all(parse_event(line) for line in lines)
    for deep in (b'{"event":"go","t_s":1,"x":' + b"[" * 100_000, b'{"event":"\xff"}', b"[]", b'{"event":1}'):
        assert parse_event(deep) is None


@quick_and_thorough(60, 3_000)
def test_run_with_any_events_is_summarized_or_refused_in_one_line(run: RunPaths, cases: int) -> None:
    for data in mutants([run.events.read_bytes()], cases):
        run.result.unlink(missing_ok=True)
        run.events.write_bytes(data)
        try:
            load_result(run)
        except StoreError as error:
            assert str(error).isprintable()


@quick_and_thorough(300)
def test_any_result_file_is_read_or_reported_as_damaged(run: RunPaths, cases: int) -> None:
    good, damaged = run.result.read_bytes(), 0
    for data in mutants([good], cases):
        run.result.write_bytes(data)
        try:
            results.encode(load_result(run))
        except StoreError as error:
            damaged += 1
            assert str(error).isprintable()
    assert damaged > cases / 3


@quick_and_thorough(300)
@pytest.mark.parametrize("table", ["steps", "samples"])
def test_any_table_is_read_or_reported_as_damaged(run: RunPaths, cases: int, table: str) -> None:
    path: Path = getattr(run, table)
    good, damaged = path.read_bytes(), 0
    # Parquet metadata is at the end of a file. In the reversed file it is at the start, where most changes are made.
    for number, data in enumerate(mutants([good, good[::-1]], cases)):
        path.write_bytes(data if number % 2 else data[::-1])
        try:
            getattr(StoredRun(run), table)
        except StoreError as error:
            damaged += 1
            assert str(error).isprintable()
    assert damaged > cases / 2


@quick_and_thorough(300)
def test_any_record_file_gives_complete_records_only(tmp_path: Path, cases: int) -> None:
    path = tmp_path / "records"
    recorder = Recorder(path)
    for number in range(3):
        recorder.write(RecordKind.COMPUTE, number, 1)
    recorder.close()
    good = path.read_bytes()[: 64 + 5 * RECORD_BYTES]
    for data in mutants([good], cases):
        path.write_bytes(data)
        reader, bytes_read = RecordReader(path), 0
        while new := reader.new():
            assert len(new) % RECORD_BYTES == 0
            bytes_read += len(new)
        assert bytes_read <= len(data)


DAMAGE: dict[str, bytes] = {
    "events": b'{"event": "go"\n\xff\xfe\n[[[\n{}\n{"event": "joined", "t_s": 1}\n',
    "result": b'{"run": "\x1b[31m',
    "steps": b"PAR1" + b"\xff" * 100 + b"PAR1",
    "journal": b"\xff" * 100,
}


@pytest.mark.parametrize("file", DAMAGE)
@pytest.mark.parametrize("ended", [True, False])
def test_damaged_run_is_reported_in_one_line_and_hides_no_other(
    tmp_path: Path,
    run: RunPaths,
    file: str,
    ended: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    good = store_run(tmp_path / "runs", name="whole", steps=20)
    getattr(run, file).write_bytes(DAMAGE[file])
    if not ended and file != "result":
        run.result.unlink()
    runs = ["--runs", str(tmp_path / "runs")]
    assert run_command(["ls", *runs]) == 0
    captured = capsys.readouterr()
    assert good.id in captured.out
    assert "\x1b" not in captured.out + captured.err
    for verb in ("show", "report"):
        assert run_command([verb, run.id, *runs]) in (0, 2)
        captured = capsys.readouterr()
        assert "internal error" not in captured.err
        assert "Traceback" not in captured.err
    assert run_command(["report", good.id, *runs]) == 0


def test_run_with_incomplete_last_entries_is_shown_without_them(tmp_path: Path, run: RunPaths) -> None:
    """A kill -9 of the controller leaves half an event and half a frame of the journal."""
    whole = load_result(run)
    run.result.unlink()
    with run.events.open("ab") as events:
        events.write(b'{"t_s": 3.5, "event": "exi')
    journal = Journal(run.journal)
    for entry in ENTRIES:
        journal.add(entry)
    journal.close()
    torn = run.journal.read_bytes()[:-7]
    shutil.copy(run.steps, tmp_path / "steps")
    run.journal.write_bytes(torn)
    consolidate(run)
    shutil.copy(tmp_path / "steps", run.steps)
    write_checksums(run)
    again = load_result(run)
    assert (again.status, again.updates) == (whole.status, whole.updates)
    assert [worker.steps for worker in again.workers] == [worker.steps for worker in whole.workers]
