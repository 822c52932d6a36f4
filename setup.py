"""Fetches the chart library of the page before the package is built. Everything else is in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithAssets(build_py):
    def run(self) -> None:
        """Run the script as a program of its own: the package and its dependencies are not installed yet."""
        script = Path(__file__).parent / "src" / "paceline" / "page" / "fetch_vendor.py"
        subprocess.run([sys.executable, str(script)], check=True)
        super().run()


setup(cmdclass={"build_py": BuildWithAssets})
