"""What all parts of a report's ``run`` and ``host`` have in common: whoever writes and whoever reads has one model.

Whoever reads a document validates it by pydantic: a missing field has its default, an unknown one is ignored.
"""

from collections.abc import Mapping
from typing import Any, Self


class Record:
    """What all of them have."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the record of plain data.

        Raises:
            ValueError: a value has another type than its field.
        """
        from pydantic import TypeAdapter

        return TypeAdapter(cls).validate_python(values)
