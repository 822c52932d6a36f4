"""Starts a JVM with Spark's classes as a child process of this task.

Spark's own scripts start another JVM first, only to put the command line together.
"""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from paceline.engines.spark.environment import PYTHON, SparkHome, spark_home
from paceline.engines.spark.java import java_command, problems
from paceline.errors import RunError

WORKER = "org.apache.spark.deploy.worker.Worker"
_GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
"""The packages of Java that Spark uses although they are not public; its launcher passes the same."""
_PR_SET_PDEATHSIG = 1
_POLL_S = 0.05
_START_S = 150.0
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
DAEMON_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For a process that does little: it starts sooner without optimizing its code."""


def check_java() -> None:
    """Raise RunError if this host has no Java that Spark can use."""
    for problem in problems():
        raise RunError(problem)


def start_jvm(
    home: SparkHome, main: str, options: tuple[str, ...], arguments: list[str], variables: dict[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Start the class `main`. The process ends with this one, however this one ends: its stdin is a pipe from here."""
    jars = Path(spark_home()) / "jars" / "*"
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    # Without this, netty cannot free the memory of its buffers.
    more = ["-Dio.netty.tryReflectionSetAccessible=true", "-Djdk.reflect.useDirectMethodHandle=false"]
    command = [str(java_command()), "-cp", f"{home.conf}{os.pathsep}{jars}", *opened, *more, *options, main, *arguments]
    return subprocess.Popen(
        command,
        env={**home.environment(), **(variables or {})},
        stdin=subprocess.PIPE,
        stdout=sys.stderr,
        preexec_fn=_end_with_parent,
    )


class Gateway:
    """The driver's JVM, and the connection through which this process calls it."""

    def __init__(self, home: SparkHome, heap_mib: int, compiler_options: list[str]) -> None:
        os.environ.update(home.environment() | {"PYSPARK_PYTHON": PYTHON, "PYSPARK_DRIVER_PYTHON": PYTHON})
        tempfile.tempdir = str(home.temporary)
        self._answer = home.temporary / "gateway"
        variables = {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._answer), "SPARK_CONNECT_MODE": "0"}
        options = (f"-Xmx{heap_mib}m", "--add-modules=jdk.incubator.vector", *compiler_options)
        self.process = start_jvm(home, _GATEWAY, options, [], variables)

    def connect(self) -> Any:
        """Wait until the JVM is there; returns py4j's gateway."""
        from pyspark.java_gateway import launch_gateway
        from pyspark.serializers import UTF8Deserializer, read_int

        deadline_s = time.monotonic() + _START_S
        while not self._answer.is_file():
            check_running(self.process)
            if time.monotonic() > deadline_s:
                raise RunError(f"the JVM of the driver did not start within {_START_S:.0f} s")
            time.sleep(_POLL_S)
        with self._answer.open("rb") as answer:
            port, secret = read_int(answer), UTF8Deserializer().loads(answer)
        self._answer.unlink()
        # pyspark reads these to connect to a JVM that runs already.
        os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
        return launch_gateway()


def check_running(process: "subprocess.Popen[bytes]") -> None:
    if (code := process.poll()) is not None:
        raise RunError(f"a process of Spark ended with code {code}: its last lines are in the log of this task")


def stop(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _end_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
