"""PyTorch as an engine."""

from paceline.engines.base import Engine
from paceline.plan.roles import SERVER, WORKER

DESCRIPTOR = Engine(
    summary="PyTorch: DistributedDataParallel on gloo; a parameter server of ours on ZeroMQ or pipes",
    required_module="torch",
    distributions=("torch",),
    install_hint="pip install 'paceline[torch]'",
    strategies=frozenset({"single", "ps-sync", "ps-async", "allreduce"}),
    tasks={SERVER: "paceline.engines.torch.server:serve", WORKER: "paceline.engines.torch.worker:run"},
    secrets="paceline.paramserver.transports.curve_auth:new_keys",
    listens="The parameter server listens on its host's address and admits only tasks that have the run's key; between "
    "hosts that share memory it does not listen at all. In allreduce, gloo listens on each host's address and accepts "
    "any connection.",
    multiplies_blocks=True,
    user_model="torch",
    shares_memory=True,
    drops_late_gradients=True,
    workers_rejoin=True,
    splits_parameters_evenly=True,
)
