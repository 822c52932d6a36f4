"""Test machines: real hosts on this one machine, for tests of hosts that are reached by ssh, Slurm or Ray.

What is true of each machine, and checked by tests/support/test_machine_harness.py:

- It has its own network, mount, UTS, IPC, pid and time namespaces. So it has an address (10.81.x.y) on a switch that
  only its cluster uses, a host name (node1, node2 …), its own processes and its own sshd on port 22.
- Home, /tmp, /var/tmp, the temporary folder of the test process, /run and /dev/shm are its own. All else, such as /usr
  and the project with its virtual environment, is that of the real machine, read-only.
- Its monotonic clock is 1000 s ahead of that of the machine before it, as machines start at different times. The time
  of day cannot differ: Linux has no namespace for it, so there is no `set_clock_skew`.
- Cores and memory are those of the real machine. It has no way to the internet, and a name look-up fails at once.
- Host keys are right in the known_hosts of the cluster, and are verified. Only the key of the cluster is accepted.

Nothing is left when the block ends, the test fails, or the test process or its reaper is killed: see `reaper.py`.

Measured on two cores: three machines take 0.3 s to make and 0.1 s to remove on an idle machine, 1 to 2 s with eight
busy processes beside; 32 take 8 to 14 s then. A command by ssh takes 0.2 to 0.5 s, most of it for the key exchange.
"""

from support.machines.cluster import Cluster, MachinesError, make_machines, reason_without_machines
from support.machines.machine import Machine, Process, wait_for

__all__ = [
    "Cluster",
    "Machine",
    "MachinesError",
    "Process",
    "make_machines",
    "reason_without_machines",
    "wait_for",
]
