"""The directories and environment variables of Spark's processes on one host.

Everything that they write is in one directory below the agent's scratch directory, which is removed at the end of the
run. The run's secret is only in the environment of the processes, never on a command line or in a file.
"""

import os
import shutil
import sys
from pathlib import Path

import pyspark

from paceline.engines.spark.secrets import SPARK_SECRET
from paceline.train.context import Job

SCRATCH = "PACELINE_SPARK_SCRATCH"
"""The environment variable with the scratch directory of the agent of an executor's host."""
TASK = "PACELINE_SPARK_TASK"
"""The environment variable with the name of the task that an executor belongs to."""
PYTHON = "paceline-python"
"""The command that runs Python in executors: it may be at another path on every host."""
HAS_SHORT_PATHS = sys.platform == "linux"
"""Whether every directory has a short path. The path of a Unix socket may have at most 107 bytes."""
_SCALA = "2.13"
"""The version of Scala for which all of Spark 4 is built. Its scripts set it; we start the JVMs without them."""
_DEFAULTS = """
spark.authenticate true
spark.ui.killEnabled false
"""
_LOG_SETTINGS = """
status = error
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
# These two warn about every run without a native library and about every port that they tried in vain.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = error
# The worker says there why an executor ended. The file is made only by a process that writes to it.
appender.ends.type = File
appender.ends.name = ends
appender.ends.fileName = {executor_log}
appender.ends.createOnDemand = true
appender.ends.layout.type = PatternLayout
appender.ends.layout.pattern = %m%n
logger.worker.name = org.apache.spark.deploy.worker.Worker
logger.worker.level = info
logger.worker.additivity = false
logger.worker.appenderRef.ends.ref = ends
logger.worker.appenderRef.stderr.ref = stderr
logger.worker.appenderRef.stderr.level = warn
"""
# A script, not a link: Python finds its virtual environment by the path it was started with. The archives that Spark
# puts on the path hold the pyspark that is installed here anyway; before every task, Python would read their tables
# of contents again, which takes longer than the task.
_PYTHON_SCRIPT = """#!/bin/sh
kept=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        *.zip | *.jar) ;;
        *) kept=$kept${{kept:+:}}$entry ;;
    esac
done
PYTHONPATH=$kept exec "{python}" "$@"
"""


class SparkHome:
    """The directory of one task's Spark processes."""

    def __init__(self, job: Job, scratch: Path) -> None:
        self._job, self._scratch = job, scratch
        self.directory = scratch / f"spark-{job.task}"
        shutil.rmtree(self.directory, ignore_errors=True)  # Of an earlier process of the same task.
        self.conf, self.local, self.work, self.temporary, self.events, commands = (
            self.directory / name for name in ("conf", "local", "work", "tmp", "events", "bin")
        )
        for folder in (self.conf, self.local, self.work, self.temporary, self.events, commands):
            folder.mkdir(mode=0o700, parents=True)
        self.executor_log = self.directory / "executors.log"
        (self.conf / "log4j2.properties").write_text(_LOG_SETTINGS.format(executor_log=self.executor_log))
        retries = job.ports.last - job.ports.first if job.ports else 16
        (self.conf / "spark-defaults.conf").write_text(_DEFAULTS + f"spark.port.maxRetries {retries}\n")
        script = commands / PYTHON
        script.write_text(_PYTHON_SCRIPT.format(python=sys.executable))
        script.chmod(0o700)
        self._commands = commands
        self._temporary_fd = os.open(self.temporary, os.O_RDONLY) if HAS_SHORT_PATHS else None

    def environment(self) -> dict[str, str]:
        """For a master, a worker or a driver, and for the processes that these start."""
        job, java = self._job, f"-Djava.io.tmpdir={self._short_temporary()} -XX:-UsePerfData"
        return {
            **os.environ,
            "SPARK_HOME": spark_home(),
            "SPARK_SCALA_VERSION": _SCALA,
            "SPARK_CONF_DIR": str(self.conf),
            "SPARK_LOCAL_DIRS": str(self.local),
            "SPARK_WORKER_DIR": str(self.work),
            "SPARK_LOCAL_IP": job.address,
            "SPARK_LOCAL_HOSTNAME": job.address,
            "JDK_JAVA_OPTIONS": java,
            "TMPDIR": str(self.temporary),
            "PATH": f"{self._commands}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            # Spark reads the secret of a master, a worker and an executor from here.
            "_SPARK_AUTH_SECRET": job.secrets[SPARK_SECRET],
            SCRATCH: str(self._scratch),
            TASK: job.task,
        }

    def remove(self) -> None:
        if self._temporary_fd is not None:
            os.close(self._temporary_fd)
            self._temporary_fd = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def _short_temporary(self) -> str:
        """A path of the directory for temporary files, in which the path of a Unix socket is not too long."""
        if self._temporary_fd is None:
            return str(self.temporary)
        return f"/proc/{os.getpid()}/fd/{self._temporary_fd}"


def spark_home() -> str:
    """The directory of the Spark that pyspark brings along."""
    return str(Path(pyspark.__file__).parent)
