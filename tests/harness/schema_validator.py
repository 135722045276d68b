"""The validator of the specs' schema, for all tests: to check the schema itself takes longer than to apply it."""

import json

from jsonschema.validators import validator_for

from opduel.harness.specs.schema import SCHEMA_FILE

SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = validator_for(SCHEMA)(SCHEMA)
