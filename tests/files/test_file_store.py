"""Files go to a host by content: found where they are, received in parts, and refused if they are not what was said."""

import os
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import RunError
from paceline.files.reference import FileRef, reference
from paceline.files.store import FileStore


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """The store of a host that has nothing yet."""
    return FileStore(tmp_path / "cache", tmp_path / "scratch")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))


def file_of_controller(folder: Path, data: bytes, name: str = "data.bin") -> FileRef:
    """A reference to a file that only the controller has."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    file = reference(path)
    path.unlink()
    return file


def test_a_file_at_the_same_path_is_used_in_place(tmp_path: Path, store: FileStore) -> None:
    path = tmp_path / "shared.bin"
    path.write_bytes(b"content")
    file = reference(path)
    assert store.find(file) == path
    assert store.missing([file]) == []


def test_a_file_that_changed_at_the_same_path_is_missing(tmp_path: Path, store: FileStore) -> None:
    path = tmp_path / "shared.bin"
    path.write_bytes(b"content")
    file = reference(path)
    path.write_bytes(b"CONTENT")
    os.utime(path, ns=(0, 0))
    assert store.missing([file]) == [file]
    assert reference(path).sha256 != file.sha256


@pytest.mark.parametrize("keep", [True, False])
def test_a_received_file_is_found_by_later_stores_only_if_it_is_kept(tmp_path: Path, keep: bool) -> None:
    file = file_of_controller(tmp_path, b"abcdef")
    store = FileStore(tmp_path / "cache", tmp_path / "scratch")
    store.expect(file, keep=keep)
    assert not store.receive(file.sha256, b"abc")
    assert store.find(file) is None
    assert store.receive(file.sha256, b"def")
    assert store.path(file).read_bytes() == b"abcdef"
    later = FileStore(tmp_path / "cache", tmp_path / "scratch of the next run")
    assert (later.find(file) is not None) == keep


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_a_file_arrives_as_it_was_sent_whatever_its_parts_are(data: bytes, cuts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = file_of_controller(Path(folder), data)
        store = FileStore(Path(folder) / "cache", Path(folder) / "scratch")
        store.expect(file, keep=True)
        bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
        parts = [data[start:end] for start, end in pairwise(bounds)]
        parts = [part for part in parts if part] or [b""]
        assert [store.receive(file.sha256, part) for part in parts] == [False] * (len(parts) - 1) + [True]
        assert store.path(file).read_bytes() == data


def test_other_content_and_too_many_bytes_are_refused_and_leave_nothing(tmp_path: Path, store: FileStore) -> None:
    file = file_of_controller(tmp_path, b"abcdef")
    for wrong, says in ((b"abcdeX", "other content"), (b"abcdefg", "more than the announced 6")):
        store.expect(file, keep=True)
        with pytest.raises(RunError, match=says):
            store.receive(file.sha256, wrong)
    assert store.missing([file]) == [file]
    assert list((tmp_path / "cache" / "files").iterdir()) == []


def test_a_part_that_nobody_asked_for_is_refused(store: FileStore) -> None:
    with pytest.raises(RunError, match="was not requested"):
        store.receive("0" * 64, b"data")


@pytest.mark.parametrize("name", ["../evil.py", "/etc/passwd", "a/../../b"])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, store: FileStore, name: str) -> None:
    file = file_of_controller(tmp_path, b"x")
    store.expect(file, keep=False)
    store.receive(file.sha256, b"x")
    hostile = FileRef(name=name, size=file.size, sha256=file.sha256)
    with pytest.raises(RunError, match="relative path"):
        store.folder_of((hostile,))


@pytest.mark.parametrize("sha256", ["", "../../x", "0" * 63, "G" * 64])
def test_a_reference_without_a_valid_hash_is_refused(store: FileStore, sha256: str) -> None:
    with pytest.raises(RunError, match="SHA-256"):
        store.find(FileRef(name="x", size=1, sha256=sha256))


def test_code_keeps_its_folder_where_the_controller_has_it_and_gets_a_copy_elsewhere(
    tmp_path: Path, store: FileStore
) -> None:
    folder = tmp_path / "project"
    (folder / "package").mkdir(parents=True)
    (folder / "main.py").write_text("import helper")
    (folder / "package" / "part.py").write_text("x = 1")
    files = tuple(reference(folder / name, name) for name in ("main.py", "package/part.py"))
    assert store.folder_of(files) == folder
    contents = {file.sha256: (folder / file.name).read_bytes() for file in files}
    for file in files:
        (folder / file.name).unlink()
        store.expect(file, keep=False)
        store.receive(file.sha256, contents[file.sha256])
    copy = store.folder_of(files)
    assert copy != folder
    assert (copy / "main.py").read_text() == "import helper"
    assert (copy / "package" / "part.py").read_text() == "x = 1"
    assert store.folder_of(files) == copy
