"""Read by every Python process with this folder on its path, before its own code: agents and tasks of a run learn here
to measure only when it is their turn. So the product needs no switch that only a benchmark would use."""

import os
import sys
from pathlib import Path

from bench.turn import FOLDER

if notes := os.environ.get(FOLDER):
    if "paceline.task" in sys.orig_argv:
        from bench.turning.tasks import record_in_turns

        record_in_turns(Path(notes))
    if "paceline.agent" in sys.orig_argv:
        from bench.turning.agents import watch_in_turns

        watch_in_turns(Path(notes))
