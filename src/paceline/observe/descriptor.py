"""A user's own script as an engine: its tasks run the script instead of training a workload."""

from paceline.engines.base import Engine
from paceline.plan.roles import WORKER

DESCRIPTOR = Engine(
    summary="a user's own training script, observed while it runs",
    required_module="paceline",
    distributions=("paceline",),
    install_hint="pip install paceline",
    strategies=frozenset({"user-script"}),
    tasks={WORKER: "paceline.observe.task:run"},
    may_pass="paceline.observe.passing_errors:may_pass",
    listens="What the script and its framework open. Of torch, the store of rank 0 and gloo accept any connection.",
    unauthenticated={"user-script": "frameworks such as gloo accept any connection"},
    system_ports={"user-script": "the frameworks of a script choose their ports themselves"},
    folder_variables=("KERAS_HOME", "MPLCONFIGDIR"),
    runs_scripts=True,
)
