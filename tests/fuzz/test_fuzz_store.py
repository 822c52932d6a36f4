"""Run directories in any state: what can be read is shown, the rest is told in a line, and no run hides the others."""

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
from paceline.store.events import well_formed
from paceline.store.journal import ClockOffset, Entry, HostSamples, Journal, TaskAdded, TaskRecords, read
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from paceline.store.tables import build
from paceline.store.writer import consolidate
from report.stored import store_run

SAMPLE = HostSample(1, 1.0, [0.5, 0.25], 100, LinkCount(1, 2, 3, 4), LinkCount(5, 6, 7, 8), 9, 10, [])
ENTRIES: list[Entry] = [
    TaskAdded("w0", "h1"), ClockOffset("h1", -5, 3), TaskRecords("w0", bytes(2 * RECORD_BYTES)),
    HostSamples("h1", [SAMPLE]),
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    return store_run(tmp_path / "runs", name="broken", steps=20, incident="something happened")


def checked(body: bytes) -> bytes:
    """As the journal frames it."""
    return struct.pack("<II", len(body), zlib.crc32(body)) + body


@quick_and_thorough()
def test_any_journal_reads_as_the_entries_before_the_damage(tmp_path: Path, cases: int) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    for entry in ENTRIES:
        journal.add(entry)
    journal.close()
    good = path.read_bytes()
    for number, data in enumerate(mutants([good], cases)):
        path.write_bytes(data)
        kept = list(read(path))
        # A checksum lets through only what was written, but for entries cut out, twice there, or out of order.
        assert all(entry in ENTRIES for entry in kept)
        if number % 100 == 0:
            build(kept)


@quick_and_thorough(400, 20_000)
def test_entries_with_a_right_checksum_and_wrong_content_become_tables_or_nothing(tmp_path: Path, cases: int) -> None:
    path = tmp_path / "journal"
    bodies = [msgspec.msgpack.encode(entry) for entry in ENTRIES]
    for data in mutants(bodies, cases):
        path.write_bytes(checked(data) + checked(bodies[0]))
        build(read(path))


@pytest.mark.parametrize("size", [2**28 - 1, 2**28, 2**32 - 1])
def test_a_journals_claims_are_not_believed(tmp_path: Path, size: int) -> None:
    (tmp_path / "journal").write_bytes(struct.pack("<II", size, 0) + b"x" * 100)
    tracemalloc.start()
    try:
        assert list(read(tmp_path / "journal")) == []
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_lists_in_lists_and_text_that_is_none_end_a_journal(tmp_path: Path) -> None:
    tag = msgspec.msgpack.encode("TaskAdded")
    for body in (
        b"\x94" + tag + b"\xa1a\xa1h" + b"\x91" * 100_000 + b"\xc0",
        b"\x93" + tag + b"\xa2\xff\xff\xa1h",
        msgspec.msgpack.encode(["HostSamples", "h1", [[2**64 - 1, 1.0, [], 1, [], [], 1, 1, []]]]),
    ):
        (tmp_path / "journal").write_bytes(checked(body))
        build(read(tmp_path / "journal"))
        assert list(read(tmp_path / "journal")) == []


@quick_and_thorough()
def test_any_line_is_an_event_that_readers_can_rely_on_or_left_out(run: RunPaths, cases: int) -> None:
    lines = run.events.read_bytes().splitlines()
    kept = 0
    for line in mutants(lines, cases):
        if event := well_formed(line):
            kept += 1
            assert isinstance(event["event"], str)
            assert isinstance(event["t_s"], int | float)
    assert kept
    assert all(well_formed(line) for line in lines)
    for deep in (b'{"event":"go","t_s":1,"x":' + b"[" * 100_000, b'{"event":"\xff"}', b"[]", b'{"event":1}'):
        assert well_formed(deep) is None


@quick_and_thorough(60, 3_000)
def test_a_run_with_any_events_is_summed_up_or_refused_in_a_line(run: RunPaths, cases: int) -> None:
    for data in mutants([run.events.read_bytes()], cases):
        run.result.unlink(missing_ok=True)
        run.events.write_bytes(data)
        try:
            load_result(run)
        except StoreError as error:
            assert str(error).isprintable()


@quick_and_thorough(300)
def test_any_result_is_one_or_damaged(run: RunPaths, cases: int) -> None:
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
def test_any_table_is_one_or_damaged(run: RunPaths, cases: int, table: str) -> None:
    path: Path = getattr(run, table)
    good, damaged = path.read_bytes(), 0
    # What a table is told by is at its end, the other way round it is at the beginning, where most changes are made.
    for number, data in enumerate(mutants([good, good[::-1]], cases)):
        path.write_bytes(data if number % 2 else data[::-1])
        try:
            getattr(StoredRun(run), table)
        except StoreError as error:
            damaged += 1
            assert str(error).isprintable()
    assert damaged > cases / 2


@quick_and_thorough(300)
def test_any_record_file_gives_whole_records_and_no_more_than_it_holds(tmp_path: Path, cases: int) -> None:
    path = tmp_path / "records"
    recorder = Recorder(path)
    for number in range(3):
        recorder.write(RecordKind.COMPUTE, number, 1)
    recorder.close()
    good = path.read_bytes()[: 64 + 5 * RECORD_BYTES]
    for data in mutants([good], cases):
        path.write_bytes(data)
        reader, found = RecordReader(path), 0
        while new := reader.new():
            assert len(new) % RECORD_BYTES == 0
            found += len(new)
        assert found <= len(data)


DAMAGE: dict[str, bytes] = {
    "events": b'{"event": "go"\n\xff\xfe\n[[[\n{}\n{"event": "joined", "t_s": 1}\n',
    "result": b'{"run": "\x1b[31m',
    "steps": b"PAR1" + b"\xff" * 100 + b"PAR1",
    "journal": b"\xff" * 100,
}


@pytest.mark.parametrize("file", DAMAGE)
@pytest.mark.parametrize("ended", [True, False])
def test_a_damaged_run_is_told_in_a_line_and_hides_no_other(
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
        assert "internal fault" not in captured.err
        assert "Traceback" not in captured.err
    assert run_command(["report", good.id, *runs]) == 0


def test_a_torn_tail_is_set_aside_and_the_rest_of_the_run_is_shown(tmp_path: Path, run: RunPaths) -> None:
    """As a kill -9 of the controller leaves it: half an event, and half a frame of the journal."""
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
