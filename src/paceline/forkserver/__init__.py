"""Starts processes by fork from one process that has imported their modules once; Linux only.

`client.py` is what a caller uses: `ForkServer.spawn` takes a command `python -m MODULE ARGUMENTS` and returns a process
much like subprocess.Popen. `server.py` is the loop of the fork server, `child.py` turns a forked process into the
command. Modules that are imported in the fork server must not start threads that a fork would lose.
"""
