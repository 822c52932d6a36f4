"""Training files that are spread over the workers: LibSVM files, and TFRecord files as TensorFlow writes them."""

from pathlib import Path

import numpy as np
import pytest

from paceline.data.batches import Share
from paceline.data.crc32c import crc32c
from paceline.data.libsvm import LibsvmExamples
from paceline.data.tfrecord import Fields, TfrecordExamples
from paceline.errors import DataError

FIELDS = Fields(features=1_000, nonzeros=3)


def share(index: int = 0, workers: int = 2, batch: int = 2) -> Share:
    return Share(batch=batch, workers=workers, index=index, seed=1)


def write_tfrecord(path: Path, numbers: range, values: int = 2) -> Path:
    """Written by TensorFlow itself."""
    tf = pytest.importorskip("tensorflow")
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in numbers:
            features = {
                "index": tf.train.Feature(int64_list=tf.train.Int64List(value=[number, 300][:values])),
                "value": tf.train.Feature(float_list=tf.train.FloatList(value=[1.5, -2.0][:values])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[-1 if number % 2 else 1])),
                "comment": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"not used"])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return path


def write_libsvm(path: Path, numbers: range) -> Path:
    path.write_text("".join(f"{-1 if number % 2 else 1} {number + 1}:1.5 301:-2\n" for number in numbers))
    return path


@pytest.mark.parametrize("kind", ["libsvm", "tfrecord"])
def test_each_worker_reads_only_its_own_files_again_and_again(kind: str, tmp_path: Path) -> None:
    parts = [range(5), range(5, 9), range(9, 12), range(12, 16)]
    write = write_libsvm if kind == "libsvm" else write_tfrecord
    files = [write(tmp_path / f"part-{number}", part) for number, part in enumerate(parts)]
    data = (
        LibsvmExamples(files, files[0], features=1_000, nonzeros=3)
        if kind == "libsvm"
        else TfrecordExamples(files, files[:1], FIELDS)
    )
    files[1].unlink()
    files[3].unlink()  # Those of the second worker, which may be on another host.
    stream = data.stream(share(0))
    seen = [stream.at(step).inputs[0][:, 0].tolist() for step in (*range(6), 1)]
    # Files 0 and 2, without the last incomplete batch of each.
    assert seen == [[0, 1], [2, 3], [9, 10], [0, 1], [2, 3], [9, 10], [2, 3]]
    batch = stream.at(0)
    assert batch.inputs[0].tolist() == [[0, 300, 0], [1, 300, 0]]
    assert batch.inputs[1].tolist() == [[1.5, -2.0, 0], [1.5, -2.0, 0]]
    assert batch.target.tolist() == [1, 0]
    (test,) = data.test()
    assert test.target.tolist() == [1, 0, 1, 0, 1]
    with pytest.raises(DataError, match="cannot read"):
        data.stream(share(1)).at(0)
    with pytest.raises(DataError, match="4 training files for 5 workers"):
        data.stream(share(0, workers=5))


def test_files_with_less_than_a_batch_are_refused(tmp_path: Path) -> None:
    files = [write_libsvm(tmp_path / "a", range(1)), write_libsvm(tmp_path / "b", range(1))]
    with pytest.raises(DataError, match="fewer than the 2 examples of one batch"):
        LibsvmExamples(files, files[0], features=10_000, nonzeros=3).stream(share()).at(0)


@pytest.mark.parametrize("change", ["flip", "cut", "text"])
def test_a_damaged_tfrecord_is_refused(tmp_path: Path, change: str) -> None:
    path = write_tfrecord(tmp_path / "part", range(4))
    data = bytearray(path.read_bytes())
    if change == "flip":
        data[20] ^= 1
    damaged = {"flip": data, "cut": data[:-3], "text": b"label index value, and more text than a header"}
    path.write_bytes(bytes(damaged[change]))
    with pytest.raises(DataError, match=r"damaged|truncated or not a TFRecord"):
        TfrecordExamples([path], [path], FIELDS).stream(share(workers=1)).at(0)


def test_an_example_with_too_many_or_wrong_indices_is_refused(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "part", range(2_000, 2_004))
    for fields, message in ((FIELDS, "out of range: must be 0 to 999"), (Fields(9_999, 1), "at most 1")):
        with pytest.raises(DataError, match=message):
            TfrecordExamples([path], [path], fields).stream(share(workers=1)).at(0)
    with pytest.raises(DataError, match="no feature 'click': it has index, label, value"):
        TfrecordExamples([path], [path], Fields(9_999, 2, label="click")).test()


def test_checksum_is_that_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(np.zeros(32, np.uint8))) == 0x8A9136AA
