"""Copies the chart library of the page into the package before it is built. Everything else is in pyproject.toml."""

import importlib.util
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FILES = ("uPlot.iife.js", "uPlot.min.css")
"""The files of uPlot (MIT licence, named in the first lines of the script) in the build requirement uplot-python."""


class BuildWithAssets(build_py):
    def run(self) -> None:
        vendor = Path(__file__).parent / "src" / "paceline" / "page" / "vendor"
        vendor.mkdir(exist_ok=True)
        # Found without importing the package, whose own requirements are of no use here.
        spec = importlib.util.find_spec("uplot")
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("the build requirement uplot-python is not installed: build with pip's build isolation")
        for name in FILES:
            shutil.copyfile(Path(spec.submodule_search_locations[0]) / "static" / name, vendor / name)
        super().run()


setup(cmdclass={"build_py": BuildWithAssets})
