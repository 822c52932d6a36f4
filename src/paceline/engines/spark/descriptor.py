"""Apache Spark as an engine."""

from paceline.engines.base import Engine
from paceline.plan.roles import SERVER, WORKER

DESCRIPTOR = Engine(
    summary="Spark: a standalone cluster on the run's hosts; gradients in NumPy, MLlib's logistic regression",
    required_module="pyspark",
    distributions=("pyspark",),
    install_hint="pip install 'paceline[spark]'",
    strategies=frozenset({"bsp-sgd", "lbfgs"}),
    tasks={SERVER: "paceline.engines.spark.driver:run", WORKER: "paceline.engines.spark.worker:run"},
    secrets="paceline.engines.spark.secrets:new_secrets",
    may_pass="paceline.engines.spark.passing_errors:may_pass",
    check="paceline.engines.spark.java:problems",
    advice="paceline.engines.spark.java:hints",
    listens="The master, the workers, the executors and the driver listen on their host's address and admit only tasks "
    "that have the run's secret; what they send is not encrypted. The master's and the workers' status pages are open "
    "to everyone who reaches these addresses: they show the cluster and accept no commands.",
    layers=frozenset({"Dense", "Dropout", "Relu", "Sigmoid", "SparseLinear", "Tanh"}),
    options=frozenset({"master", "executor_memory", "driver_memory", "lineage"}),
    multiplies_blocks=True,
    workers_rejoin=True,
    any_optimizer=True,
    clips_across_servers=True,
)
