"""The documentation and the command line agree: commands parse, and every verb, option and exit code is described."""

import ast
import re
import shlex
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from paceline.cli.main import app
from paceline.cli.run import EXIT
from paceline.hosts.ssh.inventory import read_inventory
from paceline.spec.experiment import OPTIONS
from paceline.spec.load import experiment, parse_assignments
from test_imports import ALLOWED

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
CLI: Any = typer.main.get_command(app)
REFUSED = 2
"""Exit code of an error that is found before anything starts."""


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """The language and the text of each fenced code block."""
    for found in re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        yield found[1], found[2]


def commands(page: Path) -> Iterator[str]:
    """The `paceline` commands in code blocks, without comments; a line that ends with a backslash continues."""
    for language, text in blocks(page):
        if language in ("", "sh", "bash", "console"):
            for line in text.replace("\\\n", " ").splitlines():
                if found := re.match(r"(?:\$ )?(paceline [a-z-].*)", line):
                    yield shlex.join(shlex.split(found[1], comments=True))


def spans(page: Path) -> list[str]:
    """Code in sentences and tables."""
    prose = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", prose)


def all_flags() -> dict[str, set[str]]:
    """The flags of each verb; those of `paceline` itself are under the empty name."""
    groups = {"": CLI, **CLI.commands}
    return {
        name: {flag for parameter in command.params for flag in parameter.opts if flag.startswith("--")}
        for name, command in groups.items()
    }


DOCUMENTED = [(page.relative_to(ROOT).as_posix(), command) for page in PAGES for command in commands(page)]


def test_there_are_commands_for_every_verb() -> None:
    assert {command.split()[1] for _, command in DOCUMENTED} >= set(CLI.commands)


@pytest.mark.parametrize(("page", "command"), DOCUMENTED, ids=[f"{page}: {command}" for page, command in DOCUMENTED])
def test_documented_commands_parse(page: str, command: str) -> None:
    """As far as that is possible without running them: flags, and for runs also the values of the options."""
    _, verb, *rest = shlex.split(command)
    if verb.startswith("-"):
        assert verb in all_flags()[""]
        return
    parsed = CLI.commands[verb].make_context(verb, rest).params
    if verb in ("run", "reproduce"):
        given = {name: value for name, value in parsed.items() if name in OPTIONS and value not in (None, ())}
        experiment({"workload": "logreg"} | given | parse_assignments(parsed["set_"] or []))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_verbs_and_flags_in_sentences_exist(page: Path) -> None:
    every_flag = set().union(*all_flags().values(), {"--help"})
    for span in spans(page):
        words = span.split()
        if words[0] == "paceline" and len(words) > 1:
            assert words[1] in CLI.commands or words[1] in every_flag, span
        if words[0] == "paceline" or words[0].startswith("--"):
            for flag in re.findall(r"(?<!\S)--[\w-]+", span):
                assert flag in every_flag, span
        for name in re.findall(r"--set (\w+)=", span):
            assert name in OPTIONS, span


def test_every_verb_and_every_flag_is_described() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES if page.is_relative_to(ROOT / "docs"))
    for verb, flags in all_flags().items():
        assert f"paceline {verb}".strip() in text
        for flag in flags:
            assert re.search(rf"{flag}\b(?!-)", text), f"paceline {verb} {flag}"


def test_every_option_is_described() -> None:
    text = (ROOT / "docs" / "options.md").read_text("utf-8")
    for option in OPTIONS:
        assert f"| `{option}` |" in text


def test_every_exit_code_is_described() -> None:
    page = (ROOT / "docs" / "guide" / "get-started.md").read_text("utf-8")
    table = page.split("## Exit codes")[1]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == {*EXIT.values(), REFUSED}


def check_toml(text: str) -> None:
    """An inventory of machines lists hosts; every other file is a spec."""
    fields = tomllib.loads(text)
    if "host" in fields:
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            assert read_inventory(file.name).machines
    else:
        experiment(fields)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_and_toml_blocks_are_valid(page: Path) -> None:
    for language, text in blocks(page):
        if language == "python":
            ast.parse(text)
        elif language == "toml":
            check_toml(text)


def test_the_architecture_page_has_a_paragraph_for_every_folder_in_the_order_of_imports() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    described = re.findall(r"^- \*\*(\w+)/\*\*: ", page, re.MULTILINE)
    folders = [folder for folder in ALLOWED if (ROOT / "src" / "paceline" / folder).is_dir()]
    assert [folder for folder in described if folder in folders] == folders


def test_pages_name_files_of_the_package_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    source = ROOT / "src" / "paceline"
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", page):
        assert (source / name).exists() or (ROOT / name).exists(), name
