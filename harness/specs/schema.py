"""The JSON Schema of specs, for editors: ``python -m opduel.harness.specs.schema`` stores it."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from opduel.frameworks.base import SPECIFICATIONS
from opduel.harness.specs import fields
from opduel.harness.specs.model import Spec
from opduel.records.case import DTYPES

RESTRICTS = "restricts what other definitions allow"
SCHEMA_FILE = SPECIFICATIONS / "spec.schema.json"


class _Generator(GenerateJsonSchema):
    """Without titles that repeat a field's name, and without null: it stands for "not said" in the models alone."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _tests_like(arguments: str, **properties: Any) -> dict[str, Any]:
    """Return the JSON Schema of specs with these fields of tests, and with arguments as a definition below says."""
    inputs = {"additionalProperties": {"$ref": f"#/$defs/{arguments}"}, "items": {"$ref": f"#/$defs/{arguments}Inputs"}}
    return {"properties": {"tests": {"items": {"properties": {**properties, "inputs": inputs}}}}}


def _arguments(name: str, restrictions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an argument whose fields are restricted at every depth, but not within ``value``."""
    inner = {"$ref": f"#/$defs/{name}"}
    properties = {
        "value": True,
        "kwargs": {"propertyNames": {"pattern": fields.ARGUMENT_PATTERN}, "additionalProperties": inner},
        **restrictions,
    }
    plain = {"$comment": RESTRICTS, "items": inner, "properties": properties, "additionalProperties": inner}
    return {
        name: plain,
        f"{name}Inputs": {"$comment": RESTRICTS, "properties": {"case": True}, "additionalProperties": inner},
    }


# What a function as an argument may be called, and whether calls may be arguments, depends on the framework.
DEFINITIONS = {
    **_arguments("AnyPackage", {"function": {"pattern": fields.DOTTED_PATTERN}}),
    **_arguments("OwnNamespaces", {"call": False, "function": {"pattern": fields.FUNCTION_PATTERN}}),
    **_arguments("Tensors", {"dtype": {"enum": list(DTYPES)}, "sparse": False}),
    **_arguments("Arrays", dict.fromkeys(("stype", "grad_stype", "grad_req"), False)),
}


def schema_text() -> str:
    """Return the schema as it is stored, made from the models."""
    tensors = _tests_like("Tensors", dtype={"enum": list(DTYPES)})
    tensors["properties"]["defaults"] = {"properties": {"dtype": {"enum": list(DTYPES)}}}
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Spec.model_json_schema(schema_generator=_Generator),
        "title": "opduel spec",
        "if": {"properties": {"framework": {"enum": list(fields.FUNCTION_FRAMEWORKS)}}},
        "then": _tests_like("AnyPackage", operator={"pattern": fields.DOTTED_PATTERN}),
        "else": _tests_like("OwnNamespaces", operator={"pattern": fields.OPERATOR_PATTERN}),
        "allOf": [
            {
                "if": {"properties": {"framework": {"enum": list(fields.ARRAY_FRAMEWORKS)}}},
                "then": _tests_like("Arrays"),
                "else": tensors,
            }
        ],
    }
    document["$defs"] = {**document["$defs"], **DEFINITIONS}
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
