"""The run's standalone cluster: its master, and the configuration of the application."""

from typing import Any

from paceline.engines.spark.environment import HAS_SHORT_PATHS, SparkHome
from paceline.engines.spark.secrets import SPARK_SECRET
from paceline.ports import reserve_port
from paceline.spec.values import heap_mib
from paceline.train.context import Job

MASTER_ADDRESS = "spark-master"
"""The purpose under which the driver announces the address of the master."""
_LARGEST_HEAP_MIB, _SMALLEST_HEAP_MIB = 4096, 512
_MIB = 2**20


def cores_of(job: Job) -> int:
    """Cores of each executor; a task of a step uses all of them."""
    return job.threads


def task_cpus(job: Job) -> int:
    """Cores of each task: on the run's own cluster all of its executor, which works on one task at a time."""
    return 1 if "master" in job.options else cores_of(job)


def heap_mib_of(job: Job, option: str) -> int:
    """The heap of an executor or of the driver: as given, or half of the task's share of the memory."""
    given = job.options.get(option) or job.options.get("executor_memory")
    if given:
        return heap_mib(given)
    return max(_SMALLEST_HEAP_MIB, min(_LARGEST_HEAP_MIB, job.memory_bytes // 2 // _MIB))


def compiler_options(job: Job) -> list[str]:
    """Options of the JVMs of the driver and the executors.

    Where the arithmetic is NumPy's, the JVM's optimizing compiler costs more than it saves: it takes most of the CPU
    time of the first minute.
    """
    return [] if job.strategy == "lbfgs" else ["-XX:TieredStopAtLevel=1"]


def port_arguments(job: Job) -> list[str]:
    """On which ports a worker listens: Spark tries the following ones if the first of a range is in use."""
    first = str(job.ports.first if job.ports else 0)
    return ["--port", first, "--webui-port", first]


def start_master(job: Job, home: SparkHome, gateway: Any) -> str:
    """Start the master of the run's own cluster in the driver's JVM; returns its address."""
    reservation = reserve_port(job.address, job.ports)
    port = reservation.getsockname()[1]
    reservation.close()
    conf = _conf(gateway, settings(job, home, "local"))
    web_port = job.ports.first if job.ports else 0
    master = gateway.jvm.org.apache.spark.deploy.master.Master
    master.startRpcEnvAndEndpoint(job.address, port, web_port, conf._jconf)
    return f"spark://{job.address}:{port}"


def open_context(job: Job, home: SparkHome, gateway: Any, master: str) -> Any:
    """The SparkContext of the run. The secret goes to the JVM through the gateway, which only this process can use."""
    from pyspark import SparkContext

    return SparkContext(conf=_conf(gateway, settings(job, home, master)), gateway=gateway)


def _conf(gateway: Any, values: dict[str, str]) -> Any:
    from pyspark import SparkConf

    conf = SparkConf(loadDefaults=False, _jvm=gateway.jvm)
    for name, value in values.items():
        conf.set(name, value)
    return conf


def settings(job: Job, home: SparkHome, master: str) -> dict[str, str]:
    """The configuration of the application."""
    own_cluster = "master" not in job.options
    first_port = str(job.ports.first if job.ports else 0)
    cores = cores_of(job)
    common = {
        "spark.master": master,
        "spark.app.name": f"paceline {job.run}",
        "spark.driver.host": job.address,
        "spark.driver.bindAddress": job.address,
        "spark.driver.port": first_port,
        "spark.blockManager.port": first_port,
        "spark.port.maxRetries": str(job.ports.last - job.ports.first if job.ports else 16),
        "spark.ui.enabled": "false",
        "spark.ui.killEnabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": f"{heap_mib_of(job, 'executor_memory')}m",
        "spark.executor.cores": str(cores),
        "spark.task.cpus": str(task_cpus(job)),
        "spark.cores.max": str(cores * job.workers),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.task.maxFailures": "8",
        # The gradients of large models are results of tasks.
        "spark.driver.maxResultSize": "0",
        "spark.rpc.message.maxSize": "512",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": home.events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.rolling.maxFileSize": "10m",
        "spark.executor.extraJavaOptions": " ".join(compiler_options(job)),
        # The numbers that are exchanged hardly become shorter. What an executor reads from another one goes through
        # the network also if both are on one machine, as on the hosts that it stands for.
        "spark.shuffle.compress": "false",
        "spark.shuffle.readHostLocalDisk": "false",
        "spark.authenticate": "false",
    }
    if own_cluster:
        common |= {
            "spark.authenticate": "true",
            "spark.authenticate.secret": job.secrets[SPARK_SECRET],
            # Between a JVM and its Python process. Over TCP, every task waits 40 ms for a delayed acknowledgement.
            "spark.python.unix.domain.socket.enabled": str(HAS_SHORT_PATHS).lower(),
        }
    return common
