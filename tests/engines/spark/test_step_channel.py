"""The messages between the driver and the workers, over real sockets."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import zmq

from paceline.engines.spark import step_channel
from paceline.engines.spark.secrets import SPARK_SECRET, new_secrets
from paceline.engines.spark.step_channel import Done, DriverChannel, FromDriver, Steps, StepTimes, WorkerChannel
from paceline.errors import PeersGone
from paceline.train.context import Outcome
from paramserver.running_server import JOB

KEYS = new_secrets()
STEP = Steps([StepTimes(0, 1, 0.5, 1_000, 2_000)])


def worker_channel(address: str, secrets: dict[str, str] = KEYS["w"]) -> WorkerChannel:
    events = SimpleNamespace(halted=threading.Event(), disconnect_requested=threading.Event())
    job = msgspec.structs.replace(JOB, task="w0", role="w", secrets=secrets)
    context: Any = SimpleNamespace(job=job, rendezvous=events)
    return WorkerChannel(context, address)


def receive(channel: WorkerChannel, tries: int = 200) -> FromDriver | None:
    for _ in range(tries):
        if message := channel.receive():
            return message
    return None


@pytest.fixture
def halted() -> threading.Event:
    return threading.Event()


@pytest.fixture
def driver(halted: threading.Event) -> Iterator[DriverChannel]:
    channel = DriverChannel(msgspec.structs.replace(JOB, secrets=KEYS["ps"]), halted)
    yield channel
    channel.close()


def test_what_a_worker_missed_while_it_was_away_arrives_when_it_is_back(driver: DriverChannel) -> None:
    driver.send("w0", STEP)
    driver.send("w0", Done(Outcome(steps=1)))
    worker = worker_channel(driver.address)
    assert receive(worker) == STEP
    done = receive(worker)
    assert isinstance(done, Done)
    assert done.outcome.steps == 1
    worker.close()


def test_a_halt_of_a_worker_reaches_the_driver(driver: DriverChannel, halted: threading.Event) -> None:
    worker = worker_channel(driver.address)
    worker._rendezvous.halted.set()
    worker.receive()
    assert halted.wait(20)
    worker.close()


def test_only_time_in_which_a_worker_listens_counts_as_silence(
    driver: DriverChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0
    monkeypatch.setattr(step_channel, "clock_ns", lambda: now)
    worker = worker_channel(driver.address)
    now += 2 * step_channel._SILENT_NS  # The worker waits at the barrier while the driver loads the data.
    worker.receive()

    class SilentSocket:
        def poll(self, _: int) -> bool:
            nonlocal now
            now += step_channel._SILENT_NS // 2
            return False

        def send(self, _: bytes) -> None:
            pass

    socket, worker._socket = worker._socket, SilentSocket()  # type: ignore[assignment]
    with pytest.raises(PeersGone, match="no answer from the driver"):
        receive(worker, tries=4)
    worker._socket = socket
    worker.close()


def test_a_worker_without_the_key_of_the_run_is_not_admitted(driver: DriverChannel) -> None:
    public, secret = (key.decode() for key in zmq.curve_keypair())
    strange = {**KEYS["w"], "curve-client-public": public, "curve-client-secret": secret}
    worker = worker_channel(driver.address, strange)
    driver.send("w0", STEP)
    assert receive(worker, tries=10) is None
    assert driver.joined == 0
    worker.close()


def test_every_run_has_a_secret_of_its_own() -> None:
    assert KEYS["w"][SPARK_SECRET] == KEYS["ps"][SPARK_SECRET]
    assert new_secrets()["w"][SPARK_SECRET] != KEYS["w"][SPARK_SECRET]
