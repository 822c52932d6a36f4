"""A parameter server of the v1 runtime: it holds variables and does what workers' graphs say, until told to halt."""

from paceline.engines.tensorflow.cluster import start_server
from paceline.train.context import Outcome, TaskContext
from paceline.train.recorder import clock_ns


def serve(context: TaskContext) -> Outcome:
    _server = start_server(context)  # Lives as long as this name.
    context.rendezvous.start_together()
    started = clock_ns()
    context.rendezvous.halted.wait()
    return Outcome(started_ns=started, ended_ns=clock_ns())
