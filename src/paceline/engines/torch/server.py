"""The parameter server of the torch engine: Paceline's own, with the initial values of a user's module."""

from paceline.paramserver import server
from paceline.train.context import Outcome, TaskContext


def serve(context: TaskContext) -> Outcome:
    """Serve one shard until all workers have left. torch is imported only for a user's module."""
    if context.workload.torch:
        from paceline.engines.torch.user_model import with_model

        context = with_model(context)
    return server.serve(context)
