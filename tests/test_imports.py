"""Which folder of the package may import which, and that frameworks are imported only in the folder of their engine."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "paceline"
FRAMEWORKS = {"torch": "torch", "tensorflow": "tensorflow", "keras": "tensorflow", "pyspark": "spark", "py4j": "spark"}
"""Module -> the engine that may import it."""
ALLOWED = {
    "errors": "",
    "units": "errors",
    "versions": "",
    "process_marks": "",
    "entry_points": "errors",
    "ports": "errors",
    "strategies": "entry_points",
    "spec": "entry_points errors units",
    "plan": "errors spec strategies units",
    "files": "errors",
    "data": "errors",
    "user_files": "",
    "workloads": "data errors spec strategies user_files",
    "layers": "workloads",
    "messages": "errors files ports",
    "forkserver": "",
    "recording": "",
    "train": "data errors files plan ports recording spec workloads",
    "paramserver": "data errors plan ports recording spec train workloads",
    "engines": "data entry_points errors files paramserver plan ports recording spec train versions workloads",
    "observe": "engines errors plan ports recording spec train user_files",
    "agent": "errors files forkserver messages process_marks recording versions",
    "task": "data entry_points errors files forkserver messages ports recording train workloads",
    "hosts": "entry_points errors forkserver ports process_marks spec versions",
    "store": "engines errors hosts messages plan recording spec strategies train",
    "present": "store",
    "analyze": "errors messages plan present recording spec store strategies workloads",
    "prediction": "analyze entry_points errors plan spec store strategies",
    "recipes": "analyze errors present spec store",
    "pictures": "analyze errors present recipes store train",
    "preload": "engines errors hosts spec",
    "control": "analyze data engines errors files hosts messages plan preload recording spec store train units versions"
    " workloads",
    "metrics": "control errors messages plan store",
    "terminal": "analyze control errors plan prediction present recipes spec store train units",
    "page": "errors present",
    "report": "analyze errors page prediction present recording spec store",
    "exports": "analyze errors present store units",
    "ui": "analyze control errors messages page plan present recording report spec store versions",
    "available": "data engines errors hosts plan spec strategies workloads",
    "pipeline": "analyze available control data engines errors hosts plan preload spec store strategies versions"
    " workloads",
    "run_all": "pipeline preload spec store",
    "forecast": "available errors plan prediction spec store strategies",
    "advice": "analyze errors forecast plan prediction spec store",
    "api": "analyze control errors exports pictures plan present recipes report run_all spec store terminal"
    " user_files workloads",
    "cli": "advice analyze control data engines errors exports forecast hosts metrics pictures pipeline plan"
    " prediction preload recipes report run_all spec store strategies terminal train ui units workloads",
    "__init__": "api data errors forecast workloads",
    "__main__": "cli",
}
"""Folder or module at the top of the package -> what it may import. A new import between two folders is a decision:
add it here only if the dependency should exist."""


def imports_of(file: Path) -> set[str]:
    """The dotted names that a file imports, including imports inside functions."""
    modules = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return modules


def folder_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_folders() -> dict[str, set[str]]:
    """Folder -> the other folders that its files import."""
    found: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        folder = folder_of(file)
        names = {module.split(".")[1] for module in imports_of(file) if module.startswith("paceline.")}
        found.setdefault(folder, set()).update(names & ALLOWED.keys() - {folder})
    return found


def test_folders_import_exactly_what_they_may() -> None:
    assert imported_folders() == {folder: set(names.split()) for folder, names in ALLOWED.items()}


def test_folders_have_no_import_cycle() -> None:
    order = list(TopologicalSorter({folder: names.split() for folder, names in ALLOWED.items()}).static_order())
    assert set(order) == ALLOWED.keys()


def test_frameworks_are_imported_only_in_the_folder_of_their_engine() -> None:
    wrong = []
    for file in SOURCE.rglob("*.py"):
        for module in imports_of(file):
            engine = FRAMEWORKS.get(module.split(".")[0])
            if engine and not file.is_relative_to(SOURCE / "engines" / engine):
                wrong.append(f"{file.relative_to(SOURCE)} imports {module}")
    assert not wrong
