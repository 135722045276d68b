"""The specs that come with the project, and every example in docs/reference/specs.md."""

import json
import math
import re
from pathlib import Path

import pytest
from schema_validator import SCHEMA, VALIDATOR

from opduel.harness.specs import expand_cases, find_spec, is_bundle, list_specs, load_cases, load_spec, members_of
from opduel.harness.specs.expand import DEFAULT_TIMEOUT_S
from opduel.harness.specs.fields import PLACEHOLDERS
from opduel.harness.specs.schema import SCHEMA_FILE
from opduel.records import METRICS

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "specs.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```(json|yaml)\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)


PATHS = {name: find_spec(name) for name in list_specs()}
BUNDLES = [name for name, path in PATHS.items() if is_bundle(path)]
MEMBERS = {member.resolve() for name in BUNDLES for member in members_of(PATHS[name])}
SINGLE_SPECS = [path for name, path in PATHS.items() if name not in BUNDLES and path.resolve() not in MEMBERS]


@pytest.mark.parametrize("name", BUNDLES)
def test_a_shipped_bundle_has_cases_of_all_its_specs(name: str) -> None:
    cases = load_cases(PATHS[name])
    assert {case.category for case in cases} == {member.stem for member in members_of(PATHS[name])}
    if name == "all.json":
        assert len({case.operator for case in cases}) >= 300


def test_the_catalogue_is_a_bundle_of_all_its_categories() -> None:
    path = find_spec("all")
    categories = [path.parent / "hostile.json", *(path.parent / "operators").glob("*.json")]
    assert sorted(members_of(path)) == sorted(categories)


def test_shipped_specs_that_no_bundle_has_are_valid() -> None:
    for path in SINGLE_SPECS:
        assert load_cases(path), path


def test_shipped_specs_are_valid_by_their_schema() -> None:
    """Of the tests of each, three: to validate all of them takes a minute."""
    for path in PATHS.values():
        if path.suffix == ".json":
            document = json.loads(path.read_text(encoding="utf-8"))
            if "tests" in document:  # a bundle has none
                document["tests"] = document["tests"][:: math.ceil(len(document["tests"]) / 3)]
            VALIDATOR.validate(document)
            assert (path.parent / document["$schema"]).resolve() == SCHEMA_FILE


@pytest.mark.nightly
def test_shipped_specs_have_only_tests_of_the_schema() -> None:
    for path in PATHS.values():
        if path.suffix == ".json":
            VALIDATOR.validate(json.loads(path.read_text(encoding="utf-8")))


def test_the_schema_is_one() -> None:
    VALIDATOR.check_schema(SCHEMA)


def test_conv() -> None:
    cases = expand_cases(load_spec(find_spec("specs/conv.json")))
    assert len(cases) == 20
    assert {case.operator for case in cases} == {"nd.Convolution", "nd.Deconvolution"}
    assert {case.direction for case in cases} == {"forward", "backward"}
    assert {len(case.inputs["kernel"]) for case in cases} == {1, 2, 3}
    for attribute in ("stride", "dilate", "num_group"):
        assert any(attribute in case.inputs for case in cases)


def test_smoke() -> None:
    cases = expand_cases(load_spec(find_spec("smoke")))
    assert 18 <= len(cases) <= 24
    assert len({case.operator for case in cases}) >= 12
    assert {case.direction for case in cases} == {"forward", "backward"}


def test_calibration() -> None:
    cases = expand_cases(load_spec(find_spec("calibration")))
    assert len(cases) == 40
    assert len({case.operator for case in cases}) >= 25
    assert {case.direction for case in cases} == {"forward", "backward"}
    assert {case.threshold for case in cases} == {METRICS["time"].threshold}  # calibration runs set their own


@pytest.mark.parametrize(("kind", "text"), EXAMPLES)
def test_examples_of_the_documentation(tmp_path: Path, kind: str, text: str) -> None:
    path = tmp_path / f"example.{kind}"
    path.write_text(text, encoding="utf-8")
    for case in expand_cases(load_spec(path)):
        # "the same two for `conv2d_8x3x64x64_1`" stands for both directions
        assert f"`{case.id}`" in DOCUMENT or f"`{case.id.rpartition('/')[0]}`" in DOCUMENT


def test_the_documentation_has_examples_of_both_kinds() -> None:
    assert [kind for kind, _ in EXAMPLES] == ["json", "yaml", "json", "yaml", "json"]


def test_every_metric_is_documented_with_its_unit_and_threshold() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    for name, metric in METRICS.items():
        matters = f"{100 * metric.threshold:.3g} %" if metric.sampled else "a tolerance"
        unit = metric.unit or "the benchmark's"
        assert re.search(rf"^\| `{name}` \| {unit} \| .* \| {matters} \|", text, flags=re.MULTILINE), name


def test_every_field_is_described() -> None:
    """By itself or by its object; docs/pages.py makes a page of the descriptions."""
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        for name, field in part.get("properties", {}).items():
            assert "description" in field or "description" in part, name
    assert SCHEMA["$defs"]["Settings"]["properties"]["timeout"]["description"].endswith(
        f"Default: {DEFAULT_TIMEOUT_S:.0f}."
    )


def test_every_placeholder_is_documented() -> None:
    for name in PLACEHOLDERS:
        assert f"`{{{name}}}`" in DOCUMENT
