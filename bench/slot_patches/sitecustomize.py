"""Makes the agents and tasks of a benchmark run measure only in the measured time slots.

Python imports this module at the start of every process that has this folder on its path. Patching the processes from
here means that Paceline itself needs no option that only a benchmark would use.
"""

import os
import sys
from pathlib import Path

from bench.slots import NOTES_VARIABLE

if notes := os.environ.get(NOTES_VARIABLE):
    # A fork server imports the modules of both; each process that it starts uses only its own.
    if {"paceline.task", "paceline.forkserver"} & set(sys.orig_argv):
        from bench.slot_patches.tasks import record_in_slots

        record_in_slots(Path(notes))
    if {"paceline.agent", "paceline.forkserver"} & set(sys.orig_argv):
        from bench.slot_patches.agents import sample_in_slots

        sample_in_slots(Path(notes))
