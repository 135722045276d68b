"""The base of all of a spec's models: nothing unknown, nothing converted, no nulls."""

from difflib import get_close_matches
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from opduel.records.text import show


def field_error(field: str, message: str) -> PydanticCustomError:
    """An error about a field of the model being validated; ``load.py`` appends ``field`` to the path."""
    return PydanticCustomError("field", "{message}", {"message": message, "field": field})


class StrictModel(BaseModel):
    """Fields that are not said stay None inside, but a spec may not say null, save where a field is ``nullable``."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    nullable: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _only_known_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            raise PydanticCustomError("object", "{message}", {"message": f"is {show(data)}: use an object {{...}}"})
        known = [field.alias or name for name, field in cls.model_fields.items()]
        if cls.model_config.get("extra") == "forbid":
            for key in data:
                if key not in known:
                    close = get_close_matches(str(key), known, 1)
                    guess = f"did you mean {close[0]}? " if close else ""
                    raise field_error(key, f"is not a field: {guess}use {', '.join(known)}")
        return data

    @field_validator("*", mode="before")
    @classmethod
    def _no_null(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None and info.field_name not in cls.nullable:
            raise ValueError("is null: leave the field out, or give a value")
        return value
