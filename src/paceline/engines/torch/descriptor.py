"""PyTorch as an engine."""

from paceline.engines.base import Engine
from paceline.plan.roles import SERVER, WORKER

_GLOO_STRATEGIES = ("allreduce", "local-sgd", "diloco")
DESCRIPTOR = Engine(
    summary="PyTorch: DistributedDataParallel on gloo; a parameter server of ours on ZeroMQ or pipes",
    required_module="torch",
    distributions=("torch",),
    install_hint="pip install 'paceline[torch]'",
    strategies=frozenset({"single", "ps-sync", "ps-async", "ssp", *_GLOO_STRATEGIES}),
    tasks={SERVER: "paceline.engines.torch.server:serve", WORKER: "paceline.engines.torch.worker:run"},
    preload=("paceline.engines.torch.worker", "paceline.paramserver.server"),
    secrets="paceline.paramserver.transports.curve_auth:new_keys",
    may_pass="paceline.engines.torch.passing_errors:may_pass",
    listens="The parameter server listens on its host's address and admits only tasks that have the run's key; between "
    "hosts that share memory it does not listen at all. In allreduce, local-sgd and diloco, gloo listens on each "
    "host's address and accepts any connection.",
    unauthenticated=dict.fromkeys(_GLOO_STRATEGIES, "gloo listens on every host and accepts any connection"),
    system_ports=dict.fromkeys(
        _GLOO_STRATEGIES, "gloo connects workers through ports that the operating system chooses"
    ),
    options=frozenset({"compress"}),
    collectives={
        SERVER: "paceline.paramserver.collectives_server:serve",
        WORKER: "paceline.engines.torch.collectives:run",
    },
    multiplies_blocks=True,
    user_model="torch",
    shares_memory=True,
    drops_late_gradients=True,
    workers_rejoin=True,
    splits_parameters_evenly=True,
    any_optimizer=True,
    clips_across_servers=True,
)
