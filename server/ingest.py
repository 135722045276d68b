"""Validation of a posted body, before anything of it is stored."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import to_json

from opduel.records import Report, UsageError
from opduel.records.build import AGAINST
from opduel.reporters.document import from_text
from opduel.server.error_handlers import Refused
from opduel.support.validation import explain

MOST_VALUES_PER_BYTE = 1 / 16  # a report has fewer; empty lists would take a hundred times their size in memory
_EARLIEST_YEAR, _LATEST_YEAR = 1970, 9998  # of moments: in any time zone there is one year more
_LARGEST_NUMBER = 2**31 - 1  # that a column of whole numbers holds
_LATEST = 253_402_300_799  # the last second of the year 9999
_RUN_ID = r"^[A-Za-z0-9][A-Za-z0-9._=+@-]{0,127}$"  # it is a part of URLs
_COMMIT = re.compile(r"[0-9A-Fa-f]{1,64}")
_LONGEST_CASE, _LONGEST_FRAMEWORK = 500, 60  # characters; an index holds both

CATEGORY_MOST = 100
Category = Annotated[str, Field(min_length=1, max_length=CATEGORY_MOST)]
Count = Annotated[int, Field(ge=0, le=_LARGEST_NUMBER)]


class RunFacts(BaseModel):
    """The keys of ``run`` that the server reads; a report that lacks one has its default."""

    model_config = ConfigDict(strict=True)
    id: Annotated[str, Field(pattern=_RUN_ID)]
    started: datetime
    finished: datetime | None = None
    platform: str = "host"
    spec: str = ""
    user_identifier: str | None = None
    branch: str | None = None
    run_type: str = "benchmark"
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    threads: Count | None = None
    inject: float | None = None
    wall_s: float | None = None
    complete: bool = True
    aborted: bool = False

    @field_validator("started", "finished", mode="before")
    @classmethod
    def _moment(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            moment = datetime.fromisoformat(value)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            raise ValueError("is not a time in ISO 8601") from None
        if not _EARLIEST_YEAR <= moment.year <= _LATEST_YEAR:
            raise ValueError(f"must be in the years {_EARLIEST_YEAR} to {_LATEST_YEAR}")
        return moment


@dataclass(frozen=True)
class Submission:
    """A report that can be stored. ``document`` is all of it as local reporters write it, with its keys in the order of
    the upload; ``sha256`` is of its JSON with sorted keys."""

    category: str
    report: Report
    facts: RunFacts
    document: bytes
    sha256: str


def accept(body: bytes, idempotency_key: str | None, max_report_bytes: int) -> Submission:
    """Validate ``body``, the JSON object of a post. Raises Refused: 400 if it is not JSON, 413 if it would take too
    much memory, 422 if it is not a valid report; its line names the field."""
    values = sum(body.count(mark) for mark in (b",", b"[", b"{"))  # each value has one before it
    if values > max(1000, max_report_bytes * MOST_VALUES_PER_BYTE):
        raise Refused(413, "the body has too many values for a report")
    category, document, sha256 = _split_body(body)
    del body  # what is parsed takes many times its size: keep one copy at a time
    try:
        report = from_text(document.decode("utf-8"))
    except UsageError as error:
        raise Refused(422, str(error)) from None
    facts = _facts(report)
    if idempotency_key is not None and idempotency_key != facts.id:
        raise Refused(422, "Idempotency-Key: is not the report's run.id")
    for problem in _problems(report):
        raise Refused(422, problem)
    return Submission(category, report, facts, document, sha256)


def _split_body(body: bytes) -> tuple[str, bytes, str]:
    """Return the category, the report's document, and its SHA-256 with sorted keys."""
    try:
        posted = json.loads(body)
        if not isinstance(posted, dict) or posted.keys() != {"category", "report"}:
            raise Refused(422, 'the body must be {"category": "...", "report": {...}}')
        category = posted["category"]
        if not isinstance(category, str) or not category.isprintable() or not 0 < len(category) <= CATEGORY_MOST:
            raise Refused(422, f"category: must be 1 to {CATEGORY_MOST} printable characters")
        ordered = json.dumps(posted["report"], sort_keys=True, ensure_ascii=False, allow_nan=False).encode("utf-8")
        document = to_json(posted["report"], indent=1) + b"\n"
    except RecursionError:
        raise Refused(400, "the body is nested too deeply") from None
    except UnicodeEncodeError:
        raise Refused(422, "a text has half of a surrogate pair, which is no character") from None
    except ValueError as error:
        raise Refused(400, f"the body is no JSON: {error}") from None
    return category, document, hashlib.sha256(ordered).hexdigest()


def _facts(report: Report) -> RunFacts:
    try:
        facts = {name: getattr(report.run, name) for name in RunFacts.model_fields}
        return RunFacts.model_validate({name: value for name, value in facts.items() if value is not None})
    except ValidationError as error:
        raise Refused(422, f"run.{explain(error)}") from None


def _problems(report: Report) -> Iterator[str]:
    """Yield what is valid in a document but can't be stored as results."""
    for side, build in (("control", report.control), ("treatment", report.treatment)):
        if not _is_name(build.framework, _LONGEST_FRAMEWORK) or AGAINST in build.framework:
            yield f"{side}.framework: must be 1 to {_LONGEST_FRAMEWORK} printable characters"
        if not build.digest.isprintable() or len(build.digest) > 128:
            yield f"{side}.digest: must be up to 128 printable characters"
        if build.commit is not None and not _COMMIT.fullmatch(build.commit.id):
            yield f"{side}.commit.id: must be 1 to 64 hexadecimal digits"
        if build.commit is not None and not 0 <= build.commit.time <= _LATEST:
            yield f"{side}.commit.time: must be seconds since 1970, up to {_LATEST}"
    case_ids = set()
    for index, comparison in enumerate(report.comparisons):
        where = f"comparisons[{index}]"
        if not _is_name(comparison.case, _LONGEST_CASE):
            yield f"{where}.case: must be 1 to {_LONGEST_CASE} printable characters"
        if comparison.case in case_ids:
            yield f"{where}.case: occurs twice"
        case_ids.add(comparison.case)
        if not 0 <= comparison.rounds <= _LARGEST_NUMBER:
            yield f"{where}.rounds: must be 0 to {_LARGEST_NUMBER}"
        if comparison.ratio is not None and comparison.ratio <= 0:
            yield f"{where}.ratio: must be more than 0"
        if comparison.ci is not None and min(comparison.ci) < 0:
            yield f"{where}.ci: must be 0 or more"
        for name, value in (("p_value", comparison.p_value), ("q_value", comparison.q_value)):
            if value is not None and not 0 <= value <= 1:
                yield f"{where}.{name}: must be 0 to 1"


def _is_name(text: str, most: int) -> bool:
    return bool(text.strip()) and text.isprintable() and len(text) <= most
