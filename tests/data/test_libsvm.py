"""LibSVM files: valid examples are read, compressed or not, by any number of workers; errors name the line."""

import gzip
import math
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.data import libsvm_lines
from paceline.data.batches import Batch, Share
from paceline.data.libsvm import LibsvmExamples
from paceline.data.libsvm_lines import MAX_LINE_BYTES, LineReader
from paceline.data.libsvm_parse import Limits, parse_line, parse_regular
from paceline.errors import DataError

FEATURES, NONZEROS = 10**9, 6
LIMITS = Limits(FEATURES, NONZEROS, zero_based=False)

with_fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

numbers = st.one_of(
    st.integers(-(10**17), 10**17).map(str),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-(10**6), 10**6, places=4).map(str),
    st.sampled_from(["1", "0", "-0", "+1", ".5", "5.", "1e-3", "-2E+2", "007", "0.000000000000001", "123456789.25"]),
)
pairs = st.tuples(st.one_of(st.integers(1, 30), st.integers(1, FEATURES)), numbers)
labels = st.sampled_from(["0", "1", "-1", "+1", "1.0", "-1e0"])
examples = st.tuples(labels, st.lists(pairs, max_size=NONZEROS))
Example = tuple[str, list[tuple[int, str]]]


def as_line(example: Example) -> str:
    label, pairs_of_line = example
    return " ".join([label, *(f"{index}:{value}" for index, value in pairs_of_line)])


def expected(example: Example) -> tuple[int, list[int], list[float]]:
    label, pairs_of_line = example
    padding = NONZEROS - len(pairs_of_line)
    indices = [index - 1 for index, _ in pairs_of_line] + [0] * padding
    return (
        int(float(label) > 0),
        indices,
        [float(np.float32(float(value))) for _, value in pairs_of_line] + [0.0] * padding,
    )


def as_rows(batches: list[Batch]) -> list[tuple[int, list[int], list[float]]]:
    return [
        (int(label), indices.tolist(), values.tolist())
        for (index_rows, value_rows), target in batches
        for label, indices, values in zip(target, index_rows, value_rows, strict=True)
    ]


def read_examples(path: Path, limits: Limits = LIMITS) -> list[tuple[int, list[int], list[float]]]:
    return as_rows(LibsvmExamples(path, path, *limits[:2], zero_based=limits.zero_based).test())


def error_for(path: Path, limits: Limits = LIMITS) -> str:
    """The message of the DataError for this file."""
    with pytest.raises(DataError) as raised:
        read_examples(path, limits)
    message = str(raised.value)
    assert str(path) in message
    return message


@pytest.fixture
def write_file(tmp_path: Path) -> Callable[[bytes], Path]:
    def write_file(content: bytes) -> Path:
        path = tmp_path / "data.svm"
        path.write_bytes(content)
        return path

    return write_file


@given(st.lists(examples, min_size=1, max_size=12), st.booleans(), st.sampled_from(["\n", "\r\n", " \n", "\t# x:y\n"]))
@with_fixtures
def test_reading_returns_what_was_written(
    write_file: Callable[[bytes], Path], content: list[Example], compressed: bool, newline: str
) -> None:
    text = newline.join(map(as_line, content)).encode()  # There is no line end after the last line.
    path = write_file(gzip.compress(text, 1) if compressed else text)
    assert read_examples(path) == list(map(expected, content))


@given(st.lists(examples, min_size=1, max_size=8), st.lists(st.sampled_from(["", "  ", "# 1 2:3", "\r"]), min_size=8))
@with_fixtures
def test_empty_lines_and_comments_are_skipped_but_counted(
    write_file: Callable[[bytes], Path], content: list[Example], between: list[str]
) -> None:
    lines = [line for pair in zip(between, map(as_line, content), strict=False) for line in pair]
    path = write_file("\n".join(lines).encode())
    assert read_examples(path) == list(map(expected, content))
    path = write_file("\n".join([*lines, "", "1 x"]).encode())
    assert f"line {len(lines) + 2}: 'x' is not index:value" in error_for(path)


@given(st.lists(st.one_of(st.text("019 :.+-#\n", max_size=30), examples.map(as_line)), max_size=20))
@with_fixtures
def test_the_fast_and_the_general_parser_agree(parts: list[str]) -> None:
    """The fast parser may call a line irregular; otherwise both must return the same."""
    lines = [line for line in "\n".join(parts).encode().split(b"\n") if line[:1] > b" "]
    while (read := parse_regular(b"".join(line + b"\n" for line in lines), LIMITS)).irregular.any():
        lines = [line for line, irregular in zip(lines, read.irregular, strict=True) if not irregular]
    assert len(read.labels) == len(lines)
    start = 0
    for line, label, count in zip(lines, read.labels, read.counts, strict=True):
        stop = start + count
        assert parse_line(line, LIMITS) == (label, read.indices[start:stop].tolist(), read.values[start:stop].tolist())
        start = stop


def test_ordinary_lines_are_parsed_by_the_fast_parser() -> None:
    text = b"+1 1:1 20:-0.5 300:12.125\n-1\n0 999999999:123456 \n1\t5:+3\r\n"
    assert not parse_regular(text, LIMITS).irregular.any()


@given(st.binary(max_size=200) | st.text("01 :.-+e#\n\r\tn", max_size=200).map(str.encode))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_give_examples_or_a_data_error(write_file: Callable[[bytes], Path], data: bytes) -> None:
    for content in (data, gzip.compress(data, 1), b"\x1f\x8b" + data):
        with suppress(DataError):
            for label, indices, values in read_examples(write_file(content)):
                assert label in (0, 1)
                assert all(0 <= index < FEATURES for index in indices)
                assert all(map(math.isfinite, values))


@given(st.data())
@with_fixtures
def test_a_damaged_gzip_file_gives_no_other_error_than_data_error(
    write_file: Callable[[bytes], Path], data: st.DataObject
) -> None:
    packed = bytearray(gzip.compress(b"1 1:1 2:2\n" * 50, 1))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(DataError):
        read_examples(write_file(bytes(packed)))
    cut = gzip.compress(b"1 1:1 2:2\n" * 50, 1)
    error_for(write_file(cut[: data.draw(st.integers(2, len(cut) - 1))]))


@pytest.mark.parametrize(
    ("line", "expected_text"),
    [
        ("2 1:1", "label '2' is none of -1, 0 and 1"),
        ("x 1:1", "'x' is not a number"),
        ("nan 1:1", "'nan' is not finite"),
        ("1:1 2:1", "'1:1' is not a number"),
        ("1 1", "'1' is not index:value"),
        ("1 1:", "'' is not a number"),
        ("1 :1", "':1' is not index:value"),
        ("1 1:2:3", "'2:3' is not a number"),
        ("1 1 :2", "'1' is not index:value"),
        ("1 -1:2", "'-1:2' is not index:value"),
        ("1 1:1_0", "'1_0' is not a number"),
        ("1 1:0x1", "'0x1' is not a number"),
        ("1 qid:1", "'qid:1' is not index:value"),
        ("1 1:inf", "'inf' is not finite"),
        ("1 1:1e39", "'1e39' is not finite in single precision"),
        ("1 0:1", "index 0, but indices start at 1: set zero_based=True"),
        ("1 1000000001:1", "index '1000000001' is larger than 1000000000"),
        (f"1 {'9' * 5000}:1", "index '9999999999999999999999999999999999999999...' is larger than"),
        ("1 " + "1:1 " * 7, "7 index:value pairs: at most 6 are allowed"),
        ("1 1:\x00", "is not a number"),
        ("\x00", "is not a number"),
    ],
)
def test_the_error_names_the_line_and_what_is_wrong_with_it(
    write_file: Callable[[bytes], Path], line: str, expected_text: str
) -> None:
    message = error_for(write_file(f"1 1:1\n\n# more\n-1 2:2\n{line}\n1 3:3\n".encode()))
    assert "line 5: " in message
    assert expected_text in message


def test_indices_start_at_0_only_if_zero_based(write_file: Callable[[bytes], Path]) -> None:
    path = write_file(b"1 0:1 2:2\n")
    assert read_examples(path, Limits(3, 2, zero_based=True)) == [(1, [0, 2], [1.0, 2.0])]
    assert "larger than 1, the last" in error_for(path, Limits(2, 2, zero_based=True))
    assert read_examples(write_file(b"1 1:1 3:2\n"), Limits(3, 2, zero_based=False)) == [(1, [0, 2], [1.0, 2.0])]


def test_a_missing_or_empty_file_is_an_error(tmp_path: Path, write_file: Callable[[bytes], Path]) -> None:
    assert "No such file" in error_for(tmp_path / "missing")
    assert "cannot read" in error_for(tmp_path)
    assert "has no examples" in error_for(write_file(b"\n# nothing\n"))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_very_long_line_is_rejected_before_it_fills_the_memory(
    write_file: Callable[[bytes], Path], compressed: bool
) -> None:
    content = b"1 1:1\n1 " + b"1" * 64 * 2**20
    path = write_file(gzip.compress(content, 1) if compressed else content)
    del content
    tracemalloc.start()
    try:
        assert f"line 2: longer than {MAX_LINE_BYTES}" in error_for(path)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
    longest_allowed = b"1 1:" + b"0" * (MAX_LINE_BYTES - 10) + b"5\n"
    assert read_examples(write_file(longest_allowed)) == [(1, [0] * 6, [5.0] + [0.0] * 5)]
    assert "line 1: longer" in error_for(write_file(longest_allowed[:4] + b"0" * 20 + longest_allowed[4:]))


def numbered_lines(count: int) -> bytes:
    """Example n has the index n; there are comments between the examples."""
    return b"".join(b"%d %d:%d\n" % (n % 2, n + 1, n + 1) + b"# x\n" * (n % 3 == 0) for n in range(count))


@given(
    st.integers(1, 60), st.integers(1, 4), st.integers(1, 7), st.lists(st.integers(0, 40), max_size=6),
    st.integers(8, 100),
)  # fmt: skip
@with_fixtures
def test_workers_together_take_the_examples_of_a_single_worker_in_any_order_of_steps(
    write_file: Callable[[bytes], Path], count: int, n: int, batch: int, steps: list[int], block: int
) -> None:
    data = LibsvmExamples(write_file(numbered_lines(count)), Path("unused"), features=count, nonzeros=2)
    streams = [data.stream(Share(batch=batch, workers=n, index=i, seed=1)) for i in range(n)]
    epoch = count // (n * batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libsvm_lines, "_BLOCK_BYTES", block)
        for step in [*range(4), *steps]:
            if epoch == 0:
                with pytest.raises(DataError, match=f"fewer than the {n * batch} examples"):
                    streams[0].at(step)
                continue
            parts = [stream.at(step) for stream in streams]
            first = step % epoch * n * batch
            indices = np.concatenate([part.inputs[0] for part in parts])
            assert indices.tolist() == [[index, 0] for index in range(first, first + n * batch)]
            assert (np.concatenate([part.target for part in parts]) == indices[:, 0] % 2).all()
            assert (np.concatenate([part.inputs[1] for part in parts])[:, 0] == indices[:, 0] + 1).all()


def test_a_worker_parses_only_its_own_lines(write_file: Callable[[bytes], Path]) -> None:
    data = LibsvmExamples(write_file(b"1 1:1\n1 oops\n"), Path("unused"), features=5, nonzeros=1)
    first, second = (data.stream(Share(batch=1, workers=2, index=i, seed=1)) for i in range(2))
    assert first.at(0).target.tolist() == [1]
    with pytest.raises(DataError, match=r"data\.svm, line 2: 'oops'"):
        second.at(0)


def test_consecutive_steps_open_the_file_once(
    write_file: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    real_open = libsvm_lines._open

    def counting_open(path: Path) -> IO[bytes]:
        opened.append(path)
        return real_open(path)

    monkeypatch.setattr(libsvm_lines, "_open", counting_open)
    stream = LibsvmExamples(write_file(numbered_lines(100)), Path("unused"), features=100, nonzeros=1).stream(
        Share(batch=10, workers=1, index=0, seed=1)
    )
    for step in range(10):
        stream.at(step)
    assert len(opened) == 1
    stream.at(10)
    stream.at(11)
    assert len(opened) == 2
    stream.at(11)
    assert len(opened) == 3


def test_skipping_stops_at_the_end_of_the_file(write_file: Callable[[bytes], Path]) -> None:
    reader = LineReader(write_file(numbered_lines(5)))
    assert reader.skip(3) == 3
    assert reader.take(9).text == b"1 4:4\n0 5:5\n"
    assert reader.skip(1) == 0
    assert len(reader.take(1).numbers) == 0
    reader.rewind()
    assert reader.take(1).numbers.tolist() == [1]
