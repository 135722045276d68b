"""The JSON Schema of specs, for editors: ``python -m opduel.harness.specs.schema`` stores it.

It has the fields and their types. What depends on several fields, or on the framework, the loader checks.
"""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from opduel.frameworks.base import SPECIFICATIONS
from opduel.harness.specs.model import Spec

SCHEMA_FILE = SPECIFICATIONS / "spec.schema.json"


class _Generator(GenerateJsonSchema):
    """Without titles that repeat a field's name, and without null: it stands for "not said" in the models alone."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema_text() -> str:
    """Return the schema as it is stored, made from the models."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Spec.model_json_schema(schema_generator=_Generator),
        "title": "opduel spec",
    }
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
