"""Which results can be trusted, on a fleet by their own hosts, and of which cases' values less is better."""

import zlib
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

from opduel.records import Report, UsageError
from opduel.records.case import VALUE
from opduel.reporters.document import from_text

revision = "v0007"
down_revision = "v0006"


def upgrade() -> None:
    """Add the columns, and fill them."""
    is_true = sa.Boolean(), sa.true()
    op.add_column("results", sa.Column("trusted", is_true[0], nullable=False, server_default=is_true[1]))
    op.add_column("cases", sa.Column("lower_is_better", is_true[0], nullable=False, server_default=is_true[1]))
    connection = op.get_bind()
    of_disturbed = sa.select(_RUNS.c.number).where(~_RUNS.c.trusted)
    connection.execute(sa.update(_RESULTS).where(_RESULTS.c.run_number.in_(of_disturbed)).values(trusted=sa.false()))
    of_values = sa.select(_RESULTS.c.run_number).join(_CASES, _CASES.c.number == _RESULTS.c.case_number)
    of_values = of_values.where(_CASES.c.metric == VALUE)
    wanted = sa.select(_RUNS.c.number, _RUNS.c.framework).where(sa.or_(~_RUNS.c.trusted, _RUNS.c.number.in_(of_values)))
    for number, framework in connection.execute(wanted.order_by(_RUNS.c.received, _RUNS.c.number)).all():
        for report in _read(connection, number):
            _fill(connection, number, framework, report)


def downgrade() -> None:
    """Remove the columns; the reports still have their contents."""
    op.drop_column("cases", "lower_is_better")
    op.drop_column("results", "trusted")


_RUNS = sa.table(
    "runs",
    *(sa.column(name) for name in ("number", "framework", "received")),
    sa.column("trusted", sa.Boolean()),
)
_RESULTS = sa.table("results", sa.column("run_number"), sa.column("case_number"), sa.column("trusted", sa.Boolean()))
_CASES = sa.table(
    "cases",
    *(sa.column(name) for name in ("number", "framework", "case", "metric")),
    sa.column("lower_is_better", sa.Boolean()),
)
_CONTENT = sa.text("SELECT content FROM documents WHERE run_number = :run")


def _read(connection: sa.Connection, number: int) -> Iterator[Report]:
    """The report of the run of this number; none if it says nothing of this, or of an odd one, of a version that took
    it."""
    content = zlib.decompress(connection.execute(_CONTENT, {"run": number}).scalar_one())
    if b'"fleet":{' not in content and b'"metric":"value"' not in content:  # as it is stored
        return
    try:
        yield from_text(content.decode("utf-8"))
    except UsageError:
        return


def _fill(connection: sa.Connection, number: int, framework: str, report: Report) -> None:
    """Put down what the report of a run says of its results and their cases."""
    known = sa.select(_CASES.c.case, _CASES.c.number).where(_CASES.c.framework == framework)
    numbers: dict[str, int] = dict(connection.execute(known).all())
    for one in report.comparisons:
        if one.metric == VALUE:
            case = sa.update(_CASES).where(_CASES.c.number == numbers[one.case])
            connection.execute(case.values(lower_is_better=one.measure.lower_is_better))
        if report.run.validity.valid is False and report.can_be_trusted(one):
            result = sa.update(_RESULTS).where(_RESULTS.c.run_number == number)
            connection.execute(result.where(_RESULTS.c.case_number == numbers[one.case]).values(trusted=sa.true()))
