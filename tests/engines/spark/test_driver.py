"""What the driver tells the workers while it trains."""

from typing import Any
from unittest.mock import MagicMock

import msgspec
import pytest

pytest.importorskip("pyspark")

from paceline.engines.spark.driver import ChiefRecorder, _iterate
from paceline.engines.spark.lbfgs import Iterations
from paceline.engines.spark.step_channel import Busy
from paceline.recording.layout import RecordKind
from paceline.train.context import Outcome
from paramserver.running_server import JOB


def test_the_chief_is_busy_while_mllib_iterates() -> None:
    """No step is reported before a call of MLlib returns: without this, a second call looks like a stuck worker."""
    channel, sent_before_call = MagicMock(), []

    def iterate(most: int) -> Iterations:
        sent_before_call.append([call.args for call in channel.send.call_args_list])
        return Iterations(
            made=most, losses=[1.0] * most, start_ns=0, end_ns=1, wall_offset_ns=0, group="iterations", converged=False
        )

    program: Any = MagicMock(iterate=iterate)
    program.find_tasks.return_value = {}
    context: Any = MagicMock(job=msgspec.structs.replace(JOB, update_limit=20, eval_every=10))
    chief: Any = MagicMock()
    chief.wants_to_stop.return_value = False
    outcome, events = Outcome(), MagicMock()
    events.ended_jobs.return_value = []
    _iterate(context, program, MagicMock(), chief, ChiefRecorder(channel), outcome, events, MagicMock())
    busy, free = ("w0", Busy(RecordKind.WAIT)), ("w0", Busy(0))
    assert sent_before_call == [[busy], [busy, free, busy]]
    assert (outcome.updates, channel.send.call_args.args) == (20, free)
