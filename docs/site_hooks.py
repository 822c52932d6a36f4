"""Hooks of the documentation site: they publish files that lie outside of docs/ and adapt the links to them.

README.md becomes the start page. The links in Markdown files are those that work in the repository, so a link that
leaves docs/ is rewritten to where the site has that file.
"""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_PAGES = {"README.md": "index.md"} | {name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)#\s]+)")


def _published() -> dict[Path, str]:
    """The files outside of docs/ that are part of the site, each with its path in the site's sources."""
    pages = {ROOT / name: site for name, site in _PAGES.items()}
    examples = {path: f"examples/{path.name}" for path in sorted((ROOT / "examples").glob("*.py"))}
    return {**pages, **examples, ROOT / "LICENSE": "LICENSE.txt"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, site in _published().items():
        files.append(File.generated(config, site, content=path.read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with its links between repository files turned into links between site files."""
    published = _published()
    site = page.file.src_uri
    origin = next((path for path, name in published.items() if name == site), DOCS / site)

    def in_site(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(origin.parent / match[1]))
        if target in published:
            name = published[target]
        elif target.is_relative_to(DOCS):
            name = target.relative_to(DOCS).as_posix()
        else:
            return match[1]
        return Path(os.path.relpath(name, Path(site).parent)).as_posix()

    return _LINK.sub(in_site, markdown)
