"""A folder of the package never imports a later one, and frameworks are imported only in their engine's folder."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "paceline"
STAGES = [
    "errors", "units", "versions", "entry_points", "strategies", "spec", "plan", "data", "workloads", "layers",
    "messages", "recording", "train", "paramserver", "engines", "agent", "task", "hosts", "store", "present", "analyze",
    "recipes", "control", "metrics", "terminal", "report", "pipeline", "api", "cli", "__main__",
]  # fmt: skip
FRAMEWORKS = {"torch", "tensorflow", "keras"}


def imports_of(file: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return modules


def stage_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "paceline" and len(parts) > 1 and parts[1] in STAGES else None


def test_no_stage_imports_a_later_one() -> None:
    wrong = []
    for file in SOURCE.rglob("*.py"):
        relative = file.relative_to(SOURCE)
        stage = relative.parts[0].removesuffix(".py")
        if stage == "__init__":
            continue
        assert stage in STAGES, f"{relative}: add the new folder to STAGES in this test"
        for module in imports_of(file):
            other = stage_of(module)
            if other and STAGES.index(other) > STAGES.index(stage):
                wrong.append(f"{relative} imports {module}")
    assert not wrong


def test_frameworks_are_imported_only_by_their_engine() -> None:
    wrong = []
    for file in SOURCE.rglob("*.py"):
        for module in imports_of(file):
            framework = module.split(".")[0]
            if framework in FRAMEWORKS and not file.is_relative_to(SOURCE / "engines" / framework):
                wrong.append(f"{file.relative_to(SOURCE)} imports {module}")
    assert not wrong
