"""Types of what requests and agents give: texts, numbers and parts of lists, with their bounds."""

from datetime import date
from typing import Annotated

from fastapi import Query
from pydantic import AfterValidator, Field

MOST_ROWS = 1000
_LARGEST = 2**31 - 1


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must be printable")
    return value


Words = Annotated[str, Field(max_length=200), AfterValidator(_printable)]
RunId = Annotated[str, Field(max_length=128), AfterValidator(_printable)]
Number = Annotated[int, Field(ge=1, le=_LARGEST)]
Offset = Annotated[int, Field(ge=0, le=_LARGEST)]
Limit = Annotated[int, Field(ge=1, le=MOST_ROWS)]
Digits = Annotated[str, Field(pattern="^[0-9A-Fa-f]{4,64}$", description="the first digits")]
Branch = Annotated[Words | None, Query(description="of this branch; empty: of runs that name none")]
OperatorCategory = Annotated[
    Words | None, Query(description="cases of this category of operators, the spec that they are from")
]
StartedSince = Annotated[date | None, Query(description="started on this day (UTC) or later")]
StartedUntil = Annotated[date | None, Query(description="started on this day (UTC) or earlier")]
