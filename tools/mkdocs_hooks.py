"""MkDocs hooks: add the pages that are written from the code, and those that lie elsewhere in the repository."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from pages import commands, files, metrics, models

ROOT = Path(__file__).parents[1]
BENCHMARK_PAGES = sorted((ROOT / "benchmarks" / "pages").glob("*.md"))
PROJECT_FILES = {
    "benchmarks.md": "BENCHMARKS.md",
    **{f"benchmarks/{path.name}": f"benchmarks/pages/{path.name}" for path in BENCHMARK_PAGES},
    "project/contributing.md": "CONTRIBUTING.md",
    "project/code-of-conduct.md": "CODE_OF_CONDUCT.md",
    "project/security.md": "SECURITY.md",
    "project/reliability.md": "RELIABILITY.md",
    "project/changelog.md": "CHANGELOG.md",
}
"""Files of the repository that are pages of the site, by page; a missing file has no page."""


def make_pages() -> dict[str, str]:
    """The text of every generated page and schema, by path."""
    pages = {
        "reference/cli/index.md": commands.index_page(),
        "reference/recipe.md": files.recipe_page(),
        "reference/settings.md": files.settings_page(),
        "reference/json.md": files.json_page(),
        "reference/metrics.md": metrics.metrics_page(),
        "models/index.md": models.index_page(),
    }
    for name, command in commands.list_commands().items():
        pages[f"reference/cli/{commands.page_name(name)}"] = commands.command_page(name, command)
    for model in models.list_models():
        pages[f"models/{model.name}.md"] = models.model_page(model)
    for file in files.list_json_files():
        pages[f"reference/schemas/{file.name}"] = files.schema_text(file)
    for page, name in PROJECT_FILES.items():
        if (ROOT / name).is_file():
            pages[page] = _site_links((ROOT / name).read_text(encoding="utf-8"), page, name)
    return pages


def _site_links(text: str, page: str, name: str) -> str:
    """Point links to files of the repository at their pages; links to files without a page become text."""
    pages = {file: page for page, file in PROJECT_FILES.items()}

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match.groups(default="")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        if file.startswith("docs/"):
            other = file.removeprefix("docs/")
        elif file in pages:
            other = pages[file]
        else:
            return label
        return f"[{label}]({posixpath.relpath(other, posixpath.dirname(page))}{anchor})"

    return re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?:|#|mailto:)([^)#]*)(#[^)]*)?\)", link, text)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expand `folder/*` in the navigation to every generated page of the folder."""
    config.nav = _expand(config.nav, list(make_pages()))
    return config


def _expand(entry: Any, pages: list[str]) -> Any:
    if isinstance(entry, list):
        return [each for item in entry for each in _as_list(_expand(item, pages), item)]
    if isinstance(entry, dict):
        return {name: _expand(value, pages) for name, value in entry.items()}
    if isinstance(entry, str) and entry.endswith("/*"):
        return [page for page in pages if page.startswith(entry[:-1]) and page.endswith(".md")]
    return entry


def _as_list(expanded: Any, item: Any) -> list[Any]:
    """Splice the pages of `folder/*` into the list it stands in."""
    return expanded if isinstance(expanded, list) and isinstance(item, str) else [expanded]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links of a page to files of the repository at their pages."""
    name = page.file.src_uri
    return _site_links(markdown, name, f"docs/{name}") if (ROOT / "docs" / name).is_file() else markdown


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages to those of the folder."""
    for path, content in make_pages().items():
        files.append(File.generated(config, path, content=content))
    return files
