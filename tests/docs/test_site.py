"""The documentation site: complete, strict about links, and readable without a network."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("mkdocs.yml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "docs", "examples")
EXTERNAL = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//""")


def build(folder: Path, into: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(into)]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("site")
    done = build(ROOT, into)
    assert done.returncode == 0, done.stderr
    return into


def test_the_start_page_is_the_readme_and_links_to_the_guide(site: Path) -> None:
    page = (site / "index.html").read_text("utf-8")
    assert "Train a model on a cluster, measure every step on every host, find the bottleneck." in page
    for name in (path.name for path in (ROOT / "docs" / "guide").glob("*.md")):
        assert f'href="guide/{name.replace(".md", ".html")}"' in page


def test_the_examples_that_the_guide_links_to_are_part_of_the_site(site: Path) -> None:
    linked = re.findall(r'href="\.\./(examples/[^"]+)"', (site / "guide" / "your-own-model.html").read_text("utf-8"))
    assert linked
    for name in linked:
        assert (site / name).read_bytes() == (ROOT / name).read_bytes()


@pytest.mark.parametrize("name", ["run", "Workload", "Model", "Share", "TensorFunction", "layers.Dense", "layers.Relu"])
def test_the_reference_has_every_public_name(site: Path, name: str) -> None:
    assert f'id="paceline.{name}"' in (site / "api.html").read_text("utf-8")


def test_the_reference_has_the_fields_of_a_workload(site: Path) -> None:
    page = (site / "api.html").read_text("utf-8")
    for field in ("name", "model", "train_examples", "lr", "momentum"):
        assert f'id="paceline.Workload.{field}"' in page


def test_no_page_loads_anything_from_another_site(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages
    for page in pages:
        assert not EXTERNAL.search(page.read_text("utf-8")), page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text("utf-8")), style.name


def test_broken_links_fail_the_build_and_are_named(tmp_path: Path) -> None:
    broken = ("nowhere.md", "options.md#no-such-heading", "../examples/none.py")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "src").symlink_to(ROOT / "src")
    with (tmp_path / "docs" / "support.md").open("a", encoding="utf-8") as page:
        page.write("".join(f"\n[broken]({link})\n" for link in broken))
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    for link in broken:
        assert link in done.stderr
