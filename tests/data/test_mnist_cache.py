"""With many processes, one of which may die, exactly one fetches at a time and the cache is correct."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Semaphore
from pathlib import Path

import pytest

from paceline.data import fetch, mnist
from paceline.data.cache import FileSet, PinnedFile
from paceline.data.fetch import Offer, Source, Unavailable, fetch_once

TIMEOUT_S = 60.0
spawn = get_context("spawn")
Visible = Callable[[], dict[str, bytes]]
AnySemaphore = Semaphore | threading.Semaphore


def signal_at_lock(at_lock: AnySemaphore, patch: pytest.MonkeyPatch) -> None:
    """Make fetch_once release the semaphore when it has found the cache empty and is about to take the lock."""
    locked = fetch._locked

    def signal_and_lock(path: Path) -> AbstractContextManager[None]:
        at_lock.release()
        return locked(path)

    patch.setattr(fetch, "_locked", signal_and_lock)


def wait_for(semaphore: AnySemaphore, times: int = 1) -> None:
    for _ in range(times):
        assert semaphore.acquire(timeout=TIMEOUT_S)


def one_of_eight(small_mnist: FileSet, contents: dict[str, bytes], at_lock: Semaphore, fetching: Connection) -> None:
    def offer(requested: Sequence[PinnedFile], _scratch: Path) -> Offer:
        fetching.send("yes")
        wait_for(at_lock, times=8)  # All others have found the cache empty and are about to fetch, too.
        for file in requested:
            yield file, [contents[file.name]]

    mnist.MNIST = small_mnist
    signal_at_lock(at_lock, pytest.MonkeyPatch())
    assert not mnist.ensure([Source("stub", offer)]).synthetic


def test_one_of_eight_processes_fetches(
    data_dir: Path, small_mnist: FileSet, contents: dict[str, bytes], visible_files: Visible
) -> None:
    at_lock = spawn.Semaphore(0)
    pipes = [spawn.Pipe(duplex=False) for _ in range(8)]
    children = [
        spawn.Process(target=one_of_eight, args=(small_mnist, contents, at_lock, sender)) for _, sender in pipes
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(TIMEOUT_S)
    assert [child.exitcode for child in children] == [0] * 8
    assert sum(receiver.poll() for receiver, _ in pipes) == 1
    assert visible_files() == contents


def fetch_one_and_a_half(small_mnist: FileSet, contents: dict[str, bytes], half_done: Connection) -> None:
    def half_of(data: bytes) -> Iterator[bytes]:
        yield data[: len(data) // 2]
        half_done.send("yes")
        threading.Event().wait()

    def offer(requested: Sequence[PinnedFile], _scratch: Path) -> Offer:
        first, second, *_ = requested
        yield first, [contents[first.name]]
        yield second, half_of(contents[second.name])

    mnist.MNIST = small_mnist
    mnist.ensure([Source("stub", offer)])


def take_over(small_mnist: FileSet, contents: dict[str, bytes], at_lock: Semaphore, fetched: Connection) -> None:
    def offer(requested: Sequence[PinnedFile], _scratch: Path) -> Offer:
        fetched.send([file.name for file in requested])
        for file in requested:
            yield file, [contents[file.name]]

    mnist.MNIST = small_mnist
    signal_at_lock(at_lock, pytest.MonkeyPatch())
    mnist.ensure([Source("stub", offer)])


def test_another_process_takes_over_from_a_killed_one(
    data_dir: Path, small_mnist: FileSet, contents: dict[str, bytes], visible_files: Visible
) -> None:
    half_done, sender = spawn.Pipe(duplex=False)
    victim = spawn.Process(target=fetch_one_and_a_half, args=(small_mnist, contents, sender))
    victim.start()
    assert half_done.poll(TIMEOUT_S)
    names = list(contents)
    assert list(visible_files()) == names[:1]  # A file appears under its name only when it is complete.

    at_lock = spawn.Semaphore(0)
    fetched, sender = spawn.Pipe(duplex=False)
    successor = spawn.Process(target=take_over, args=(small_mnist, contents, at_lock, sender))
    successor.start()
    wait_for(at_lock)
    assert not fetched.poll()

    victim.kill()
    victim.join(TIMEOUT_S)
    successor.join(TIMEOUT_S)
    assert successor.exitcode == 0
    assert fetched.recv() == names[1:]  # Files that the killed process had completed are kept.
    assert visible_files() == contents
    assert {path.name for path in data_dir.iterdir()} == {".mnist.lock", *names}


def test_a_process_that_waited_while_all_sources_failed_does_not_try_them_again(
    data_dir: Path, small_mnist: FileSet, complete_source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_lock = threading.Semaphore(0)
    tries: list[str] = []
    reasons: list[str] = []

    def offer(_requested: Sequence[PinnedFile], _scratch: Path) -> Offer:
        tries.append("stub")
        wait_for(at_lock, times=2)
        raise OSError("cut off")
        yield

    def fetch_and_fail() -> None:
        with pytest.raises(Unavailable) as raised:
            fetch_once(small_mnist, [Source("stub", offer)])
        reasons.append(str(raised.value))

    signal_at_lock(at_lock, monkeypatch)
    threads = [threading.Thread(target=fetch_and_fail) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert tries == ["stub"]
    assert reasons == ["stub: cut off"] * 2
    assert fetch_once(small_mnist, [complete_source])  # A later request tries again.


def test_a_source_with_wrong_bytes_is_skipped(
    data_dir: Path, small_mnist: FileSet, contents: dict[str, bytes], complete_source: Source, visible_files: Visible
) -> None:
    def zeros(requested: Sequence[PinnedFile], _scratch: Path) -> Offer:
        for file in requested:
            yield file, [bytes(file.size)]

    def endless(requested: Sequence[PinnedFile], _scratch: Path) -> Offer:
        yield requested[0], iter(lambda: bytes(2**20), None)

    wrong = [Source("zeros", zeros), Source("endless", endless)]
    with pytest.raises(Unavailable, match=r"zeros: train-images.* SHA-256 .*; endless: .* is longer than"):
        fetch_once(small_mnist, wrong)
    assert visible_files() == {}
    assert not mnist.ensure([*wrong, complete_source]).synthetic
    assert visible_files() == contents
