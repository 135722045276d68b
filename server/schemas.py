"""The API's requests and answers as pydantic models, from which its OpenAPI document is made."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from opduel.records import Candidate, Report, Verdict
from opduel.server.ingest import Category

Model = TypeVar("Model", bound=BaseModel)

_EXAMPLE_RUN = "20261121T231820Z-ce81b5"


class Problem(BaseModel):
    """Why a request failed."""

    detail: str = Field(description="one line", examples=["comparisons[3].case: occurs twice"])


class Posted(BaseModel):
    """A report to be stored."""

    model_config = ConfigDict(extra="forbid")
    category: Category = Field(description="the sender's name for this series of runs", examples=["nightly"])
    report: Report = Field(description="the document that docs/reference/report.md describes")


class StoredReport(BaseModel):
    """A report that is stored, now or from an earlier post."""

    run_id: str = Field(examples=[_EXAMPLE_RUN])
    stored: bool = Field(description="false if this report was already stored")
    page: str = Field(description="the run's page, below the server's own address", examples=[f"/runs/{_EXAMPLE_RUN}"])


class Health(BaseModel):
    """The server answers, and its database does."""

    status: str = Field(examples=["ok"])


class CommitOut(BaseModel):
    """A commit; ``time`` in seconds since 1970."""

    id: str
    time: int | None
    subject: str | None
    author: str | None


class SideOut(BaseModel):
    """The control or the treatment."""

    requested: str = Field(examples=["release==1.9.1"])
    digest: str = Field(description="equal digests, equal builds")
    version: str
    commit: CommitOut | None


class RunOut(BaseModel):
    """One run, without its results."""

    run_id: str = Field(examples=[_EXAMPLE_RUN])
    category: str
    received: datetime
    received_from: str = Field(description="the name of the token that posted it")
    document_sha256: str
    started: datetime
    finished: datetime | None
    framework: str
    platform: str
    spec: str
    user_identifier: str | None
    branch: str | None = Field(description="that the treatment is on; null where the report names none")
    run_type: str
    control: SideOut
    treatment: SideOut
    cpu_model: str | None
    threads: int | None
    alpha: float
    inject: float | None
    wall_s: float | None
    trusted: bool
    distrust: str | None = Field(description="why it can't be trusted")
    complete: bool
    broken: bool
    verdicts: dict[str, int] = Field(description="how many results have each verdict")
    broken_by_treatment: int


class Part(BaseModel):
    """Some rows of a list."""

    total: int = Field(description="how many there are in all")
    next_offset: int | None = Field(description="the offset of the next ones; null at the end")


class RunsOut(Part):
    """Some runs, the latest first."""

    runs: Sequence[RunOut]


class CaseOut(BaseModel):
    """A case; its history is asked for by its number."""

    model_config = ConfigDict(from_attributes=True)
    number: int
    framework: str
    case: str = Field(examples=["conv2d_large/forward"])
    operator: str
    direction: str
    metric: str
    unit: str
    dtype: str | None
    context: str | None
    operator_category: str | None = Field(description="the spec that the case is from, such as unary", default=None)
    lower_is_better: bool


class CasesOut(Part):
    """Some cases, in the order of their names."""

    cases: Sequence[CaseOut]


class FailureOut(BaseModel):
    """Why a case could not be measured."""

    side: str
    kind: str
    reason: str


class Figures(BaseModel):
    """The figures of a case in a run; as in ``Comparison``."""

    verdict: Verdict
    held_back: Verdict | None
    ratio: float | None
    ci: tuple[float, float] | None
    p_value: float | None
    q_value: float | None
    threshold: float
    mde: float | None
    control: float | None
    treatment: float | None
    rounds: int
    injected: bool
    failure: FailureOut | None
    note: str | None = Field(description="why the verdict is what it is, where the figures alone don't say")


class ResultOut(BaseModel):
    """One case of one run."""

    case: CaseOut
    figures: Figures


class ResultsOut(Part):
    """Some results of one run, in the order of the cases' names."""

    run_id: str
    results: Sequence[ResultOut]


class PointOut(BaseModel):
    """One run's result in a case's history."""

    run_id: str
    started: datetime
    category: str
    platform: str
    branch: str | None
    alpha: float
    trusted: bool
    control: SideOut
    treatment: SideOut
    figures: Figures


class HistoryOut(Part):
    """One case over all runs that compared it, the oldest first."""

    case: CaseOut
    points: Sequence[PointOut]


class ExaminationOut(BaseModel):
    """What one source saw of a case on both sides, in ``unit`` per call; without figures, ``note`` says why."""

    source: str = Field(examples=["native functions"])
    unit: str = Field(examples=["instructions"])
    pairs: int = Field(description="fresh process pairs that it is from")
    control: float | None = None
    treatment: float | None = None
    difference_ci: tuple[float, float] | None = Field(None, description="95 % interval of treatment less control")
    candidates: Sequence[Candidate] = Field((), description="parts that differ, with shares and intervals")
    explained: float | None = Field(None, description="share of the difference that the candidates account for")
    note: str = ""


class CauseOut(BaseModel):
    """Why one case changed in one run; the frames of flame graphs are in the run's report alone."""

    run_id: str = Field(examples=[_EXAMPLE_RUN])
    case: CaseOut
    figures: Figures
    sentence: str
    examinations: Sequence[ExaminationOut]


def part(offset: int, count: int, total: int) -> dict[str, Any]:
    """Return the fields of a ``Part`` of ``count`` rows from ``offset`` on."""
    return {"total": total, "next_offset": offset + count if count and offset + count < total else None}


def model_from_row(model: type[Model], row: object, **values: Any) -> Model:
    """Return a ``model`` made of ``values``, and of the attributes of ``row`` for its other fields."""
    return model(**values, **{name: getattr(row, name) for name in model.model_fields if name not in values})
