"""The pages on reports name every key, column and option there is, and no other."""

import importlib.util
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples

from opduel.records import RunConfiguration
from opduel.records.run_record import RunRecord
from opduel.reporters.options import OPTIONS
from opduel.reporters.simple_screen import COLUMNS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/reference/report.md").read_text(encoding="utf-8")


def pages() -> Any:
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs/pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = pages()
SCHEMA: dict[str, Any] = PAGES.report_schema()
OBJECTS: dict[str, dict[str, Any]] = {"Report": SCHEMA, **SCHEMA["$defs"]}


@pytest.mark.parametrize("name", [name for name in OBJECTS if name != "RunConfiguration"])
def test_every_key_is_described(name: str) -> None:
    """By its own docstring, by that of the same key elsewhere, by its object's text, or by the object that it holds."""
    documented_elsewhere = {
        key for part in OBJECTS.values() for key, field in part.get("properties", {}).items() if "description" in field
    }
    for key, field in OBJECTS[name]["properties"].items():
        own_text = f"``{key}``" in OBJECTS[name].get("description", "")
        assert key in documented_elsewhere or own_text or "](#" in PAGES._type(field), key


def test_every_key_of_the_configuration_is_an_option() -> None:
    generated = PAGES.generated()
    options = generated["reference/options/harness.md"] + generated["reference/options/repo_driver.md"]
    for field in fields(RunConfiguration):
        option = field.metadata.get("option", field.name)
        assert field.name == "program" or f"--{option} " in options or f"--{option}`" in options, option


def test_the_samples_of_other_tests_have_every_key_of_a_run() -> None:
    assert set(samples.run()) == {field.name for field in fields(RunRecord)} - {"replicates"}


def test_the_page_names_only_keys_that_exist() -> None:
    table = TEXT.partition("| question | key |")[2].partition("\n\n")[0]
    keys = {key for part in OBJECTS.values() for key in part.get("properties", {})}
    assert {name for path in re.findall(r"`([\w.]+)(?:\[\])?`", table) for name in path.split(".")} <= keys


def test_the_columns_are_documented() -> None:
    section = TEXT.partition("## Tab-separated lines")[2].partition("\n## ")[0]
    names = re.findall(r"`(\w+)`", re.sub(r"\(`\w+`\)", "", section[section.index("`verdict`") :]))
    assert names == list(COLUMNS)


def test_the_options_are_documented() -> None:
    for option in {option.reporter: option for option in reversed(OPTIONS)}.values():
        assert f"| `{f'--{option.name} {option.metavar or str()}'.strip()}` |" in TEXT


def test_the_folders_are_documented() -> None:
    assert "`DIR/<framework>/<platform>/<spec>/<YYYY>/<MM>/<DD>/<control>..<treatment>/<N>/report.json`" in TEXT
    assert "`DIR/<user_identifier>/report.json`" in TEXT
    assert "`report-<its run id>.json`" in TEXT
