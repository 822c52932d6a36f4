"""A parameter server of the v1 runtime: it holds variables and does what workers' graphs say, until told to halt."""

from paceline.engines.tensorflow.cluster import start_server
from paceline.recording.recorder import clock_ns
from paceline.train.context import Outcome, TaskContext


def serve(context: TaskContext) -> Outcome:
    _server = start_server(context)  # Lives as long as this name.
    context.rendezvous.start_together()
    started = clock_ns()
    context.rendezvous.halted.wait()
    return Outcome(started_ns=started, ended_ns=clock_ns())
