"""The JSON Schema of specs, for editors: ``python -m opduel.harness.specs.schema`` prints it, ``--write`` stores it."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from opduel.frameworks.base import SPECIFICATIONS
from opduel.harness.specs.model import Spec
from opduel.records import OpduelError

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
    """The schema as it is stored, made from the models."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Spec.model_json_schema(schema_generator=_Generator),
        "title": "opduel spec",
    }
    return json.dumps(document, indent=2) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m opduel.harness.specs.schema", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {SCHEMA_FILE.name} instead of printing it")
    if parser.parse_args(arguments).write:
        try:
            SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
        except OSError as error:
            print(f"{SCHEMA_FILE}: cannot be written: {error.strerror}", file=sys.stderr)
            return OpduelError.exit_code
    else:
        sys.stdout.write(schema_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
