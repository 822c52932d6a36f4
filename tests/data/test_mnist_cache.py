"""However many processes want the data and whichever dies, one fetches and the cache is right."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Semaphore
from pathlib import Path

import pytest

from paceline.data import fetch, mnist
from paceline.data.cache import FileSet, Pinned
from paceline.data.fetch import Offer, Source, Unavailable, fetch_once

PATIENCE_S = 60.0
spawn = get_context("spawn")
Visible = Callable[[], dict[str, bytes]]
AnySemaphore = Semaphore | threading.Semaphore


def announce(at_lock: AnySemaphore, patch: pytest.MonkeyPatch) -> None:
    """Has fetch_once say when it has found the cache empty and goes for the lock."""
    locked = fetch._locked

    def announced(path: Path) -> AbstractContextManager[None]:
        at_lock.release()
        return locked(path)

    patch.setattr(fetch, "_locked", announced)


def wait_for(semaphore: AnySemaphore, times: int = 1) -> None:
    for _ in range(times):
        assert semaphore.acquire(timeout=PATIENCE_S)


def one_of_eight(small: FileSet, contents: dict[str, bytes], at_lock: Semaphore, fetching: Connection) -> None:
    def offer(wanted: Sequence[Pinned], _scratch: Path) -> Offer:
        fetching.send("yes")
        wait_for(at_lock, times=8)  # the others have seen the empty cache, and want to fetch too
        for file in wanted:
            yield file, [contents[file.name]]

    mnist.MNIST = small
    announce(at_lock, pytest.MonkeyPatch())
    assert not mnist.ensure([Source("stub", offer)]).synthetic


def test_of_eight_processes_one_fetches(
    data_dir: Path, small: FileSet, contents: dict[str, bytes], visible: Visible
) -> None:
    at_lock = spawn.Semaphore(0)
    pipes = [spawn.Pipe(duplex=False) for _ in range(8)]
    children = [spawn.Process(target=one_of_eight, args=(small, contents, at_lock, sender)) for _, sender in pipes]
    for child in children:
        child.start()
    for child in children:
        child.join(PATIENCE_S)
    assert [child.exitcode for child in children] == [0] * 8
    assert sum(receiver.poll() for receiver, _ in pipes) == 1
    assert visible() == contents


def fetch_one_and_a_half(small: FileSet, contents: dict[str, bytes], half_done: Connection) -> None:
    def half_of(data: bytes) -> Iterator[bytes]:
        yield data[: len(data) // 2]
        half_done.send("yes")
        threading.Event().wait()

    def offer(wanted: Sequence[Pinned], _scratch: Path) -> Offer:
        first, second, *_ = wanted
        yield first, [contents[first.name]]
        yield second, half_of(contents[second.name])

    mnist.MNIST = small
    mnist.ensure([Source("stub", offer)])


def take_over(small: FileSet, contents: dict[str, bytes], at_lock: Semaphore, fetched: Connection) -> None:
    def offer(wanted: Sequence[Pinned], _scratch: Path) -> Offer:
        fetched.send([file.name for file in wanted])
        for file in wanted:
            yield file, [contents[file.name]]

    mnist.MNIST = small
    announce(at_lock, pytest.MonkeyPatch())
    mnist.ensure([Source("stub", offer)])


def test_a_killed_fetcher_is_taken_over_from(
    data_dir: Path, small: FileSet, contents: dict[str, bytes], visible: Visible
) -> None:
    half_done, sender = spawn.Pipe(duplex=False)
    victim = spawn.Process(target=fetch_one_and_a_half, args=(small, contents, sender))
    victim.start()
    assert half_done.poll(PATIENCE_S)
    names = list(contents)
    assert list(visible()) == names[:1]  # a half file never shows under its name

    at_lock = spawn.Semaphore(0)
    fetched, sender = spawn.Pipe(duplex=False)
    heir = spawn.Process(target=take_over, args=(small, contents, at_lock, sender))
    heir.start()
    wait_for(at_lock)
    assert not fetched.poll()

    victim.kill()
    victim.join(PATIENCE_S)
    heir.join(PATIENCE_S)
    assert heir.exitcode == 0
    assert fetched.recv() == names[1:]  # what the victim had finished is kept
    assert visible() == contents
    assert {path.name for path in data_dir.iterdir()} == {".mnist.lock", *names}


def test_who_waited_while_every_source_failed_does_not_try_them_again(
    data_dir: Path, small: FileSet, good: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_lock = threading.Semaphore(0)
    tries: list[str] = []
    reasons: list[str] = []

    def offer(_wanted: Sequence[Pinned], _scratch: Path) -> Offer:
        tries.append("one")
        wait_for(at_lock, times=2)
        raise OSError("cut off")
        yield

    def ask() -> None:
        with pytest.raises(Unavailable) as refused:
            fetch_once(small, [Source("stub", offer)])
        reasons.append(str(refused.value))

    announce(at_lock, monkeypatch)
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert tries == ["one"]
    assert reasons == ["stub: cut off"] * 2
    assert fetch_once(small, [good])  # a later request does try


def test_a_source_with_wrong_bytes_is_passed_over(
    data_dir: Path, small: FileSet, contents: dict[str, bytes], good: Source, visible: Visible
) -> None:
    def zeros(wanted: Sequence[Pinned], _scratch: Path) -> Offer:
        for file in wanted:
            yield file, [bytes(file.size)]

    def endless(wanted: Sequence[Pinned], _scratch: Path) -> Offer:
        yield wanted[0], iter(lambda: bytes(2**20), None)

    wrong = [Source("zeros", zeros), Source("endless", endless)]
    with pytest.raises(Unavailable, match=r"zeros: train-images.* SHA-256 .*; endless: .* is longer than"):
        fetch_once(small, wrong)
    assert visible() == {}
    assert not mnist.ensure([*wrong, good]).synthetic
    assert visible() == contents
