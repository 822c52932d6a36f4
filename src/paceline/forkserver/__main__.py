"""The process of a fork server: imports modules, then forks a process for each request of its client."""

import argparse
import importlib
import socket

from paceline.forkserver import server
from paceline.forkserver.lifeline import die_with_parent


def main() -> None:
    parser = argparse.ArgumentParser(prog="paceline.forkserver")
    parser.add_argument("--client", type=int, required=True, help="the process that starts this one")
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--reserve", help="makes the command line long enough for that of a forked process")
    parser.add_argument("modules", nargs="*")
    arguments = parser.parse_args()
    die_with_parent(arguments.client)  # While modules are imported, the end of the client would not be noticed.
    connection = socket.socket(fileno=arguments.socket)
    connection.set_inheritable(False)
    for module in arguments.modules:
        importlib.import_module(module)
    server.serve(connection, children_die_with_server=False, obstacle=server.find_obstacle())


if __name__ == "__main__":
    main()
