"""LibSVM files: what is written is read, whoever reads it and however it is packed; the rest is told in a line."""

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
from paceline.data.libsvm_lines import LONGEST_LINE, LineReader
from paceline.data.libsvm_parse import Limits, parse_line, parse_plain
from paceline.errors import DataError

FEATURES, NONZEROS = 10**9, 6
LIMITS = Limits(FEATURES, NONZEROS, zero_based=False)

patient = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

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


def written(example: Example) -> str:
    label, its_pairs = example
    return " ".join([label, *(f"{index}:{value}" for index, value in its_pairs)])


def expected(example: Example) -> tuple[int, list[int], list[float]]:
    label, its_pairs = example
    filler = NONZEROS - len(its_pairs)
    indices = [index - 1 for index, _ in its_pairs] + [0] * filler
    return int(float(label) > 0), indices, [float(np.float32(float(value))) for _, value in its_pairs] + [0.0] * filler


def rows(batches: list[Batch]) -> list[tuple[int, list[int], list[float]]]:
    return [
        (int(label), indices.tolist(), values.tolist())
        for (index_rows, value_rows), target in batches
        for label, indices, values in zip(target, index_rows, value_rows, strict=True)
    ]


def whole(path: Path, limits: Limits = LIMITS) -> list[tuple[int, list[int], list[float]]]:
    return rows(LibsvmExamples(path, path, *limits[:2], zero_based=limits.zero_based).test())


def refuse(path: Path, limits: Limits = LIMITS) -> str:
    with pytest.raises(DataError) as refused:
        whole(path, limits)
    message = str(refused.value)
    assert str(path) in message
    return message


@pytest.fixture
def put(tmp_path: Path) -> Callable[[bytes], Path]:
    def put(content: bytes) -> Path:
        path = tmp_path / "data.svm"
        path.write_bytes(content)
        return path

    return put


@given(st.lists(examples, min_size=1, max_size=12), st.booleans(), st.sampled_from(["\n", "\r\n", " \n", "\t# x:y\n"]))
@patient
def test_what_is_written_is_read(
    put: Callable[[bytes], Path], content: list[Example], packed: bool, newline: str
) -> None:
    text = newline.join(map(written, content)).encode()  # no end of line after the last one
    path = put(gzip.compress(text, 1) if packed else text)
    assert whole(path) == list(map(expected, content))


@given(st.lists(examples, min_size=1, max_size=8), st.lists(st.sampled_from(["", "  ", "# 1 2:3", "\r"]), min_size=8))
@patient
def test_empty_lines_and_comments_are_passed_over_but_counted(
    put: Callable[[bytes], Path], content: list[Example], between: list[str]
) -> None:
    lines = [line for pair in zip(between, map(written, content), strict=False) for line in pair]
    path = put("\n".join(lines).encode())
    assert whole(path) == list(map(expected, content))
    path = put("\n".join([*lines, "", "1 x"]).encode())
    assert f"line {len(lines) + 2}: 'x' is not index:value" in refuse(path)


@given(st.lists(st.one_of(st.text("019 :.+-#\n", max_size=30), examples.map(written)), max_size=20))
@patient
def test_the_quick_reader_and_the_patient_one_agree(parts: list[str]) -> None:
    """The quick one may call a line odd; where it does not, both must read the same."""
    plain = [line for line in "\n".join(parts).encode().split(b"\n") if line[:1] > b" "]
    while (read := parse_plain(b"".join(line + b"\n" for line in plain), LIMITS)).odd.any():
        plain = [line for line, odd in zip(plain, read.odd, strict=True) if not odd]
    assert len(read.labels) == len(plain)
    start = 0
    for line, label, count in zip(plain, read.labels, read.counts, strict=True):
        stop = start + count
        assert parse_line(line, LIMITS) == (label, read.indices[start:stop].tolist(), read.values[start:stop].tolist())
        start = stop


def test_ordinary_lines_are_read_by_the_quick_reader() -> None:
    text = b"+1 1:1 20:-0.5 300:12.125\n-1\n0 999999999:123456 \n1\t5:+3\r\n"
    assert not parse_plain(text, LIMITS).odd.any()


@given(st.binary(max_size=200) | st.text("01 :.-+e#\n\r\tn", max_size=200).map(str.encode))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_gives_examples_or_a_data_error(put: Callable[[bytes], Path], garbage: bytes) -> None:
    for content in (garbage, gzip.compress(garbage, 1), b"\x1f\x8b" + garbage):
        with suppress(DataError):
            for label, indices, values in whole(put(content)):
                assert label in (0, 1)
                assert all(0 <= index < FEATURES for index in indices)
                assert all(map(math.isfinite, values))


@given(st.data())
@patient
def test_a_damaged_gz_never_escapes_as_another_error(put: Callable[[bytes], Path], data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(b"1 1:1 2:2\n" * 50, 1))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(DataError):
        whole(put(bytes(packed)))
    cut = gzip.compress(b"1 1:1 2:2\n" * 50, 1)
    refuse(put(cut[: data.draw(st.integers(2, len(cut) - 1))]))


@pytest.mark.parametrize(
    ("line", "says"),
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
        ("1 0:1", "index 0 in a file that counts from 1"),
        ("1 1000000001:1", "index '1000000001' is beyond 1000000000"),
        (f"1 {'9' * 5000}:1", "index '9999999999999999999999999999999999999999...' is beyond"),
        ("1 " + "1:1 " * 7, "7 non-zeros where 6 are allowed"),
        ("1 1:\x00", "is not a number"),
        ("\x00", "is not a number"),
    ],
)
def test_the_refusal_names_the_line_and_what_is_wrong(put: Callable[[bytes], Path], line: str, says: str) -> None:
    message = refuse(put(f"1 1:1\n\n# more\n-1 2:2\n{line}\n1 3:3\n".encode()))
    assert "line 5: " in message
    assert says in message


def test_indices_count_from_0_only_if_told(put: Callable[[bytes], Path]) -> None:
    path = put(b"1 0:1 2:2\n")
    assert whole(path, Limits(3, 2, zero_based=True)) == [(1, [0, 2], [1.0, 2.0])]
    assert "beyond 1, the last" in refuse(path, Limits(2, 2, zero_based=True))
    assert whole(put(b"1 1:1 3:2\n"), Limits(3, 2, zero_based=False)) == [(1, [0, 2], [1.0, 2.0])]


def test_a_file_that_is_missing_or_empty_is_told(tmp_path: Path, put: Callable[[bytes], Path]) -> None:
    assert "No such file" in refuse(tmp_path / "missing")
    assert "cannot read" in refuse(tmp_path)
    assert "has no examples" in refuse(put(b"\n# nothing\n"))


@pytest.mark.parametrize("packed", [False, True])
def test_an_absurdly_long_line_is_left_before_it_fills_the_memory(put: Callable[[bytes], Path], packed: bool) -> None:
    content = b"1 1:1\n1 " + b"1" * 64 * 2**20
    path = put(gzip.compress(content, 1) if packed else content)
    del content
    tracemalloc.start()
    try:
        assert f"line 2: longer than {LONGEST_LINE}" in refuse(path)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
    barely = b"1 1:" + b"0" * (LONGEST_LINE - 10) + b"5\n"
    assert whole(put(barely)) == [(1, [0] * 6, [5.0] + [0.0] * 5)]
    assert "line 1: longer" in refuse(put(barely[:4] + b"0" * 20 + barely[4:]))


def numbered(count: int) -> bytes:
    """Line n has index n, and comments come in between."""
    return b"".join(b"%d %d:%d\n" % (n % 2, n + 1, n + 1) + b"# x\n" * (n % 3 == 0) for n in range(count))


@given(
    st.integers(1, 60), st.integers(1, 4), st.integers(1, 7), st.lists(st.integers(0, 40), max_size=6),
    st.integers(8, 100),
)  # fmt: skip
@patient
def test_workers_together_take_what_one_takes_alone_in_any_order_of_steps(
    put: Callable[[bytes], Path], count: int, n: int, batch: int, steps: list[int], block: int
) -> None:
    data = LibsvmExamples(put(numbered(count)), Path("unused"), features=count, nonzeros=2)
    streams = [data.stream(Share(batch=batch, workers=n, index=i, seed=1)) for i in range(n)]
    epoch = count // (n * batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libsvm_lines, "_BLOCK", block)
        for step in [*range(4), *steps]:
            if epoch == 0:
                with pytest.raises(DataError, match=f"fewer than the {n * batch} examples"):
                    streams[0].at(step)
                continue
            found = [stream.at(step) for stream in streams]
            first = step % epoch * n * batch
            indices = np.concatenate([part.inputs[0] for part in found])
            assert indices.tolist() == [[index, 0] for index in range(first, first + n * batch)]
            assert (np.concatenate([part.target for part in found]) == indices[:, 0] % 2).all()
            assert (np.concatenate([part.inputs[1] for part in found])[:, 0] == indices[:, 0] + 1).all()


def test_a_worker_looks_only_at_its_own_lines(put: Callable[[bytes], Path]) -> None:
    data = LibsvmExamples(put(b"1 1:1\n1 oops\n"), Path("unused"), features=5, nonzeros=1)
    first, second = (data.stream(Share(batch=1, workers=2, index=i, seed=1)) for i in range(2))
    assert first.at(0).target.tolist() == [1]
    with pytest.raises(DataError, match=r"data\.svm, line 2: 'oops'"):
        second.at(0)


def test_consecutive_steps_open_the_file_once(put: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    really = libsvm_lines._open

    def noted(path: Path) -> IO[bytes]:
        opened.append(path)
        return really(path)

    monkeypatch.setattr(libsvm_lines, "_open", noted)
    stream = LibsvmExamples(put(numbered(100)), Path("unused"), features=100, nonzeros=1).stream(
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


def test_skipping_ends_where_the_file_ends(put: Callable[[bytes], Path]) -> None:
    reader = LineReader(put(numbered(5)))
    assert reader.skip(3) == 3
    assert reader.take(9).text == b"1 4:4\n0 5:5\n"
    assert reader.skip(1) == 0
    assert len(reader.take(1).numbers) == 0
    reader.rewind()
    assert reader.take(1).numbers.tolist() == [1]
