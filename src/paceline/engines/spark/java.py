"""Java on this machine: which version there is, and what is missing."""

import os
import re
import shutil
import subprocess
from ctypes.util import find_library
from functools import cache
from pathlib import Path

OLDEST_JAVA = 17
"""The oldest version of Java with which Spark 4 runs."""
_VERSION = re.compile(r'version "(\d+)')
_TIMEOUT_S = 20


def java_command() -> str | None:
    """The `java` that Spark's scripts start: that of JAVA_HOME, or the first on the path; None if there is none."""
    if home := os.environ.get("JAVA_HOME"):
        path = Path(home) / "bin" / "java"
        return str(path) if path.exists() else None
    return shutil.which("java")


@cache
def java_version() -> int | None:
    """The major version of Java; None if it is not installed or does not say."""
    command = java_command()
    if command is None:
        return None
    try:
        answer = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def problems() -> list[str]:
    """What keeps Spark from running on this machine, each with the remedy; empty if nothing does."""
    version = java_version()
    if version is None:
        return [f"Spark needs Java {OLDEST_JAVA} or newer, and there is none: apt-get install openjdk-17-jre-headless"]
    if version < OLDEST_JAVA:
        return [f"Spark needs Java {OLDEST_JAVA} or newer, but `java` is version {version}: install a newer one"]
    return []


def hints() -> list[str]:
    """What would make Spark faster on this machine."""
    if find_library("blas") or find_library("openblas"):
        return []
    return ["MLlib computes in Java code, because there is no native BLAS: apt-get install libblas3"]
