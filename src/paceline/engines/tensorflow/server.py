"""The parameter server of the tensorflow engine: a server of the v1 runtime.

It stores variables and executes its parts of the workers' graphs, until the controller requests a halt.
"""

from paceline.engines.tensorflow.cluster import start_server
from paceline.recording.recorder import clock_ns
from paceline.train.context import Outcome, TaskContext


def serve(context: TaskContext) -> Outcome:
    """Serve until the run is halted; the outcome has the time of the start and of the end."""
    _server = start_server(context)  # The server runs as long as this variable refers to it.
    context.rendezvous.start_together()
    started = clock_ns()
    context.rendezvous.halted.wait()
    return Outcome(started_ns=started, ended_ns=clock_ns())
