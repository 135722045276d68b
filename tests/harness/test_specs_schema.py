"""The stored JSON Schema is the models'."""

import json

import jsonschema

from opduel.frameworks import framework_names
from opduel.harness.specs import schema
from opduel.harness.specs.load import validate


def test_the_stored_schema_is_the_models() -> None:
    stored = schema.SCHEMA_FILE.read_text(encoding="utf-8")
    assert stored == schema.schema_text(), "run: python -m opduel.harness.specs.schema"
    jsonschema.Draft202012Validator.check_schema(json.loads(stored))


def test_no_field_may_be_null_or_untyped_by_mistake() -> None:
    document = json.loads(schema.schema_text())
    assert '"default": null' not in schema.schema_text()
    assert {"type": "null"} not in [field for model in document["$defs"].values() for field in model.values()]
    for name in ("Settings", "CaseSettings", "Test", "Tensor", "Attribute"):
        assert document["$defs"][name]["additionalProperties"] is False
    assert document["properties"]["framework"] == {"enum": framework_names(), "type": "string"}


def test_arguments_named_like_fields_are_arguments() -> None:
    inputs = {"shape": [2, 3], "dtype": "int32", "init": [1], "low": 0, "threshold": 0.5, "operator": "x", "value": 1}
    document = {"framework": "mxnet", "tests": [{"operator": "nd.ones", "inputs": inputs}]}
    validate(document)
    jsonschema.validate(document, json.loads(schema.schema_text()))
