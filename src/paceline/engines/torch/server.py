"""The parameter server of the torch engine: `paramserver.server`, with the initial values of a user's module if any."""

from paceline.paramserver import server
from paceline.train.context import Outcome, TaskContext


def serve(context: TaskContext) -> Outcome:
    """Serve one shard until all workers are done. torch is imported only if the model is a user's torch module."""
    if context.workload.torch:
        from paceline.engines.torch.user_model import with_user_model

        context = with_user_model(context)
    return server.serve(context)
