"""Requests that TensorFlow rejects as duplicates, because two threads drew the same seed for their request numbers."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from paceline.engines.tensorflow.session import retry_rejected
from support.live_run import DEADLINE_S
from support.repeating_seeds import repeating_seeds

REPEAT_EVERY = 20
RETRY_MESSAGE = "rejected a request as a duplicate; retrying"
STEPS = 250
COUNT_ON_A_SERVER = """
import sys
import tensorflow as tf
from paceline.engines.tensorflow.cluster import ps_device, worker_device
from paceline.engines.tensorflow.session import Session
from paceline.ports import UNRESTRICTED, reserve_port

tf1 = tf.compat.v1
ports = [reserve_port("127.0.0.1", UNRESTRICTED) for _ in range(2)]
ps, worker = (f"127.0.0.1:{port.getsockname()[1]}" for port in ports)
for port in ports:
    port.close()
cluster = tf1.train.ClusterSpec({"ps": [ps], "worker": [worker]})
server, client = (tf1.train.Server(cluster, job_name=name, task_index=0) for name in ("ps", "worker"))
graph = tf1.Graph()
with graph.as_default():
    with tf.device(ps_device(0)):
        counter = tf1.get_variable("counter", [], tf.int64, tf1.zeros_initializer(), use_resource=True)
    with tf.device(worker_device(0)):
        one = tf1.placeholder(tf.int64, [])
        summand = one * 1
    with tf.device(ps_device(0)):
        add = counter.assign_add(summand).op
        value = counter.read_value()
session = Session(client.target, graph, threads=1, worker=0)
session.run(counter.initializer)
count = session.make_callable(add, [one])
for _ in range(int(sys.argv[1])):
    count(1)
print(session.run(value))
"""


@pytest.mark.netns
def test_step_that_a_task_rejects_is_applied_once(tmp_path: Path) -> None:
    """The process of this test does not make the numbers of its requests unique, as a run does."""
    with repeating_seeds(tmp_path / "seeds", REPEAT_EVERY) as seeds:
        command = [*seeds.launcher, sys.executable, "-c", COUNT_ON_A_SERVER, str(STEPS)]
        process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3 * DEADLINE_S)
    assert process.stdout.split() == [str(STEPS)]
    assert process.stderr.count(RETRY_MESSAGE) > 0


class FailingRequest:
    """A request that raises the given errors, one per call, and then succeeds."""

    def __init__(self, errors: list[Exception]) -> None:
        self._errors, self.calls = errors, 0

    def __call__(self, *values: int) -> tuple[int, ...]:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        return values


def rejection(
    text: str = "From /job:ps/replica:0/task:0:\nThe same RunGraph (Worker) request was received twice. id: 7",
) -> Any:
    return tf.errors.AbortedError(None, None, text)


def test_rejected_request_is_retried_with_the_same_arguments(capfd: pytest.CaptureFixture[str]) -> None:
    cancellation = tf.errors.CancelledError(None, None, f"CANCELLED: recv is cancelled\nABORTED: {rejection().message}")
    request = FailingRequest([rejection(), cancellation])
    assert retry_rejected(request, (1, 2)) == (1, 2)
    assert request.calls == 3
    assert capfd.readouterr().err.count(RETRY_MESSAGE) == 2


@pytest.mark.parametrize(
    "error",
    [
        rejection("worker restarted"),
        rejection(
            "cancelled\nRecent logs:\n  W0000 aborting with The same RunGraph (Worker) request was received twice."
        ),
        rejection("The same RecvTensor (GrpcWorker) request was received twice."),
        tf.errors.UnavailableError(None, None, rejection().message),
    ],
)
def test_other_errors_are_raised_without_retry(error: Exception) -> None:
    request = FailingRequest([error])
    with pytest.raises(type(error)):
        retry_rejected(request, ())
    assert request.calls == 1


def test_number_of_retries_is_limited() -> None:
    request = FailingRequest([rejection() for _ in range(1000)])
    with pytest.raises(tf.errors.AbortedError):
        retry_rejected(request, ())
    assert request.calls < 100
