"""TensorFlow as an engine."""

from paceline.engines.base import Engine
from paceline.plan.roles import SERVER, WORKER

_SERVERS = "TensorFlow's servers listen on every interface of every host and accept any connection"

DESCRIPTOR = Engine(
    summary="TensorFlow: v1 graph with parameter servers; MultiWorkerMirroredStrategy",
    required_module="tensorflow",
    distributions=("tensorflow-cpu", "tensorflow"),
    install_hint="pip install 'paceline[tensorflow]'",
    strategies=frozenset({"single", "ps-sync", "ps-async", "allreduce"}),
    tasks={SERVER: "paceline.engines.tensorflow.server:serve", WORKER: "paceline.engines.tensorflow.worker:run"},
    may_pass="paceline.engines.tensorflow.passing_errors:may_pass",
    environment={
        # The loss of a peer must be an error at once instead of endless retries.
        "GRPC_FAIL_FAST": "use_caller",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        # oneDNN changes the order of float sums, and engines must stay comparable.
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_VISIBLE_DEVICES": "-1",
    },
    # Keras imports Matplotlib if it is installed, which then writes its configuration.
    folder_variables=("KERAS_HOME", "MPLCONFIGDIR"),
    preload=("paceline.engines.tensorflow.worker", "paceline.engines.tensorflow.server"),
    listens="Servers listen on every interface and accept any connection.",
    unauthenticated={"ps-sync": _SERVERS, "ps-async": _SERVERS, "allreduce": _SERVERS},
    multiplies_blocks=True,
    user_model="tensorflow",
    any_optimizer=True,
    clips_across_servers=True,
)
