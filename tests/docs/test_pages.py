"""The site's generated pages have every option and field that the code has, and all pages are in the navigation."""

import argparse
import csv
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_pages", DOCS / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = load()
GENERATED: dict[str, str] = PAGES.generated()


def shown(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The actions of a parser and of its subcommands that the help shows."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from shown(child)
        elif action.help != argparse.SUPPRESS:
            yield action


@pytest.mark.parametrize("name", PAGES.PARSERS)
def test_every_option_has_a_row_of_its_own(name: str) -> None:
    page = GENERATED[f"reference/options/{name}.md"]
    first_cells = re.findall(r"^\| (`.*?`) \| ", page, flags=re.MULTILINE)
    actions = list(shown(PAGES.PARSERS[name]()))
    assert len(first_cells) == len(actions)
    for action in actions:
        for option in action.option_strings:
            assert any(re.search(rf"`{re.escape(option)}[ `]", cell) for cell in first_cells), option


def test_an_option_is_shown_as_its_help_says() -> None:
    parser = argparse.ArgumentParser(prog="tool", description="Does <this>.")
    parser.add_argument("-n", "--number", type=int, default=3, metavar="N", help="how_many | of %(default)s")
    parser.add_argument("--kind", choices=["a", "b"], required=True, help="which")
    parser.add_argument("--secret", help=argparse.SUPPRESS)
    page = PAGES.options_page(parser)
    assert "# tool\n\nDoes &lt;this&gt;." in page
    assert "| `-n N`, `--number N` | how\\_many &#124; of 3 |" in page
    assert "| `--kind {a,b}` | which Required. |" in page
    assert "secret" not in page


def test_every_field_of_a_spec_a_report_and_a_catalogue_is_there() -> None:
    schemas = {
        "reference/spec-fields.md": json.loads((ROOT / "specifications/spec.schema.json").read_text(encoding="utf-8")),
        "reference/report-fields.md": PAGES.report_schema(),
        "reference/catalogue-rules.md": PAGES.Rules.model_json_schema(),
    }
    for path, schema in schemas.items():
        parts = {schema["title"].capitalize(): schema, **PAGES.described(schema)}
        sections = dict(re.findall(r"^## ([\w ]+)\n(.*?)(?=^## |\Z)", GENERATED[path], flags=re.MULTILINE | re.DOTALL))
        assert set(sections) == set(parts)
        for title, part in parts.items():
            assert set(re.findall(r"^\| `(.*?)` \|", sections[title], flags=re.MULTILINE)) == set(
                part.get("properties", ())
            ), title
        links = re.findall(r"\]\(#(.*?)\)", GENERATED[path])
        assert set(links) <= {title.lower() for title in parts}


def test_every_page_is_in_the_navigation_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"[\w/-]+\.md$", yaml.safe_dump(yaml.safe_load(text)["nav"]), flags=re.MULTILINE)
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert sorted(named) == sorted(written | set(GENERATED))


def test_nothing_is_loaded_from_other_hosts() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert settings["theme"]["font"] is False
    assert not {"analytics", "social"} & set(settings["extra"])
    assert not {"extra_css", "extra_javascript"} & set(settings)


def test_the_summary_of_the_catalogue_agrees_with_its_data() -> None:
    page = (DOCS / "explanation/releases.md").read_text(encoding="utf-8")
    with (DOCS / "explanation/all.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    header, total = (
        re.search(rf"^\| {first} \|(.*)\|$", page, flags=re.MULTILINE) for first in ("area", r"\*\*all\*\*")
    )
    assert header is not None
    assert total is not None
    counts = Counter(row["verdict"] for row in rows)
    assert counts == {
        verdict.strip(): int(n) for verdict, n in zip(header[1].split("|"), total[1].split("|"), strict=True)
    }
    assert f"{len(rows):,} cases" in page
