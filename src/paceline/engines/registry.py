"""The engines by name, described without importing any framework."""

import importlib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from paceline.train.context import Outcome, TaskContext


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """Functions are named `module:function` and loaded only where they run."""

    summary: str
    framework: str
    """The module that must be importable."""
    packages: tuple[str, ...]
    """The distributions that may bring it, for its version."""
    strategies: frozenset[str]
    worker: str
    """(TaskContext) -> Outcome"""
    server: str
    """(TaskContext) -> Outcome"""
    secrets: str | None = None
    """() -> (secrets of the servers, secrets of the workers), made anew for each run."""
    shares_memory: bool = False
    """Whether its servers and workers can pass values through memory that they share."""
    drops_late: bool = False
    """Whether its servers can go on without the slowest workers' gradients."""
    splits_parameters_evenly: bool = False
    """Whether each of its parameter servers holds an equal part of the parameters."""
    workers_rejoin: bool = False
    """Whether a worker of its parameter servers may go and come back while the others stay."""
    env: dict[str, str] = {}
    """Set for its tasks before the framework is loaded."""

    @property
    def installed(self) -> bool:
        return find_spec(self.framework) is not None

    @property
    def version(self) -> str | None:
        """Of the installed framework; None if it is not."""
        for package in self.packages:
            with suppress(PackageNotFoundError):
                return version(package)
        return None

    def run(self, role: str, context: "TaskContext") -> "Outcome":
        return cast("Outcome", _load(self.server if role == "ps" else self.worker)(context))

    def new_secrets(self) -> tuple[dict[str, str], dict[str, str]]:
        return _load(self.secrets)() if self.secrets else ({}, {})


def _load(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


_ALL = frozenset({"single", "ps-sync", "ps-async", "allreduce"})

ENGINES: dict[str, Engine] = {
    "torch": Engine(
        summary="PyTorch: DistributedDataParallel on gloo; a parameter server of ours on ZeroMQ or pipes",
        framework="torch",
        packages=("torch",),
        strategies=_ALL,
        worker="paceline.engines.torch.worker:run",
        server="paceline.engines.torch.server:serve",
        secrets="paceline.paramserver.transports.curve_auth:new_keys",
        shares_memory=True,
        drops_late=True,
        splits_parameters_evenly=True,
        workers_rejoin=True,
    ),
    "tensorflow": Engine(
        summary="TensorFlow: v1 graph with parameter servers; MultiWorkerMirroredStrategy",
        framework="tensorflow",
        packages=("tensorflow-cpu", "tensorflow"),
        strategies=_ALL,
        worker="paceline.engines.tensorflow.worker:run",
        server="paceline.engines.tensorflow.server:serve",
        env={
            # A dead peer must be an error at once, not a retry without end.
            "GRPC_FAIL_FAST": "use_caller",
            "TF_CPP_MIN_LOG_LEVEL": "1",
            # oneDNN reorders float sums; comparability across engines is worth more than its speed here.
            "TF_ENABLE_ONEDNN_OPTS": "0",
            "CUDA_VISIBLE_DEVICES": "-1",
        },
    ),
}
