"""The documentation site builds strictly and without network, and its reference matches the code."""

from __future__ import annotations

import json
import re
import socket

import pytest

from documents import ROOT
from stmg.evaluation.storage import to_json
from stmg.models.card import CARD
from stmg.models.names import find_checkpoint, shipped_names
from stmg.training.recipe import Recipe, to_yaml

pytest.importorskip("mkdocs")
from mkdocs_hooks import make_pages
from pages.docstrings import to_markdown
from pages.fields import read_fields
from pages.files import list_json_files, schema_text

LOADED = re.compile(r'<(?:script|link|img|iframe|source)[^>]*(?:src|href)="(?:https?:)?//([^"]*)"|url\(["\']?https?://')


@pytest.fixture(scope="module")
def pages():
    return make_pages()


@pytest.mark.slow
def test_it_builds_strictly_without_network_and_loads_nothing_from_elsewhere(tmp_path, monkeypatch):
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    def refuse(*_):
        raise AssertionError("the build wants the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True)
    config.plugins.run_event("startup", command="build", dirty=False)
    build(config)
    built = [path for path in tmp_path.rglob("*") if path.suffix in (".html", ".css")]
    assert len(built) > 50
    for path in built:
        assert not LOADED.search(path.read_text()), path.name
    assert "VideoSegmenter" in (tmp_path / "reference" / "python" / "segmenter.html").read_text()


def test_every_command_and_option_has_its_place(pages):
    import typer

    from stmg.cli import app

    for name, command in typer.main.get_command(app).commands.items():
        if not hasattr(command, "commands"):
            page = pages[f"reference/cli/{name}.md"]
            for option in (option for each in command.params for option in each.opts if option.startswith("-")):
                assert f"`{option}`" in page, (name, option)


def test_every_recipe_key_has_its_place(pages):
    import yaml

    for key, value in yaml.safe_load(to_yaml(Recipe())).items():
        names = [f"{key}.{inner}" for inner in value] if isinstance(value, dict) else [key]
        for name in names:
            assert f"| `{name}` |" in pages["reference/recipe.md"]


def test_every_shipped_model_has_a_page_with_its_limits(pages):
    for name in shipped_names():
        notes = json.loads((find_checkpoint(name) / CARD).read_text())["notes"]
        assert notes["limits"] in pages[f"models/{name}.md"]


def test_schemas_accept_what_is_written_and_nothing_else():
    jsonschema = pytest.importorskip("jsonschema")
    schemas = {file.name: json.loads(schema_text(file)) for file in list_json_files()}
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for name in shipped_names():
        card = json.loads((find_checkpoint(name) / CARD).read_text())
        jsonschema.validate(card, schemas[CARD])
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**card, "size": [360]}, schemas[CARD])
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**card, "sizes": 3}, schemas[CARD])


@pytest.mark.slow
def test_a_result_fits_its_schema():
    jsonschema = pytest.importorskip("jsonschema")
    import stmg

    result = stmg.evaluate("small-streets", "street:0-0", limit=2, size=(64, 96))
    schemas = {file.name: json.loads(schema_text(file)) for file in list_json_files()}
    jsonschema.validate(json.loads(to_json(result)), schemas["evaluation.json"])


def test_records_are_described_key_by_key(pages):
    section = pages["reference/json.md"].split("## ")[1]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    assert "latency_ms" in dict(rows)
    for key, doc in rows:
        assert doc.strip(), key


def test_fields_have_the_docstrings_of_the_source():
    by_name = {field.name: field for field in read_fields(Recipe)}
    assert by_name["batch"].doc == "Clips in a step, over all devices."
    assert (by_name["steps"].annotation, by_name["steps"].default) == ("int", 1000)


def test_docstrings_become_markdown():
    text = "Do it.\n\nname: what\n    goes on\nmean, std: both\n\nLast.\n\n    run(1)\n"
    assert to_markdown(text).split("\n\n", 1)[1].strip() == (
        "- `name`: what\n    goes on\n- `mean, std`: both\n\nLast.\n\n```python\nrun(1)\n```"
    )


def test_pictures_are_small_and_each_is_used():
    files = list((ROOT / "docs" / "pictures").iterdir())
    assert sum(path.stat().st_size for path in files) < 1_500_000
    text = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    for path in files:
        assert f"pictures/{path.name}" in text, path.name
