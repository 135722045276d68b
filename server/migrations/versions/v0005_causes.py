"""Causes of changes, taken from the stored reports."""

import json
import zlib
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op
from pydantic import ValidationError

from opduel.records import Cause
from opduel.server.causes import cause_row, parsed

revision = "v0005"
down_revision = "v0004"


def upgrade() -> None:
    """Create the table, and fill it."""
    causes = op.create_table(
        "causes",
        sa.Column("run_number", sa.Integer(), nullable=False),
        sa.Column("case_number", sa.Integer(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("content", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("run_number", "case_number", name=op.f("pk_causes")),
        sa.ForeignKeyConstraint(["run_number"], ["runs.number"], name=op.f("fk_causes_run_number"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["case_number"], ["cases.number"], name=op.f("fk_causes_case_number")),
    )
    op.create_index(op.f("ix_causes_case_number"), "causes", ["case_number"])
    connection = op.get_bind()
    runs = connection.execute(sa.text("SELECT number, framework FROM runs ORDER BY number")).all()
    for number, framework in runs:
        content = connection.execute(_CONTENT, {"run": number}).scalar_one()
        for case, cause in _causes(zlib.decompress(content)):
            known = {"framework": framework, "name": case}
            row = cause_row(cause, number, connection.execute(_CASE, known).scalar_one())
            connection.execute(sa.insert(causes), row)


def downgrade() -> None:
    """Remove the table; the reports still have its contents."""
    op.drop_index(op.f("ix_causes_case_number"), "causes")
    op.drop_table("causes")


_CONTENT = sa.text("SELECT content FROM documents WHERE run_number = :run")
_CASE = sa.text('SELECT number FROM cases WHERE framework = :framework AND "case" = :name')


def _causes(document: bytes) -> Iterator[tuple[str, Cause]]:
    if b'"cause":{' not in document:  # as it is stored: so a large report without causes is not parsed
        return
    for one in json.loads(document)["comparisons"]:
        try:
            cause = parsed(one.get("cause"))
        except ValidationError:  # none, or an unknown key of a report that came before causes did
            continue
        yield one["case"], cause
