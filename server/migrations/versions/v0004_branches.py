"""The branch of each run, histories by branch, the operator category of each case, and claims on alerts.

Branches are taken from the stored reports. Histories keep their change points and acknowledgements.
"""

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from alembic import op

from opduel.server.models import fit

revision = "v0004"
down_revision = "v0003"

_OLD = "uq_weighed_series_case_number_platform_threads"
_NEW = "uq_weighed_series_case_number_platform_threads_branch"


def upgrade() -> None:
    """Add the columns, and fill the branch of each run."""
    op.add_column("runs", sa.Column("branch", sa.Text(), nullable=True))
    op.add_column("cases", sa.Column("operator_category", sa.Text(), nullable=True))
    with _change_points_kept(), op.batch_alter_table("weighed_series") as series:
        series.add_column(sa.Column("branch", sa.Text(), nullable=False, server_default=""))
        series.drop_constraint(op.f(_OLD), type_="unique")
        series.create_unique_constraint(op.f(_NEW), ["case_number", "platform", "threads", "branch"])
    with op.batch_alter_table("notices") as notices:
        notices.alter_column("sent", existing_type=sa.DateTime(timezone=True), nullable=True)
        notices.add_column(sa.Column("claimed", sa.DateTime(timezone=True), nullable=True))
    connection = op.get_bind()
    for number in connection.scalars(sa.text("SELECT number FROM runs ORDER BY number")).all():
        found = connection.execute(_CONTENT, {"run": number})
        branch = _branch(zlib.decompress(found.scalar_one()))
        if branch is not None:
            connection.execute(_SET_BRANCH, {"run": number, "branch": branch})


def downgrade() -> None:
    """Remove the columns. Of several histories of a case that differ by branch alone, the first one stays, and is
    weighed again."""
    op.execute("DELETE FROM notices WHERE sent IS NULL")
    with op.batch_alter_table("notices") as notices:
        notices.drop_column("claimed")
        notices.alter_column("sent", existing_type=sa.DateTime(timezone=True), nullable=False)
    op.execute(
        "DELETE FROM weighed_series WHERE number NOT IN "
        "(SELECT MIN(number) FROM weighed_series GROUP BY case_number, platform, threads)"
    )
    op.execute("UPDATE weighed_series SET method = 0")
    with _change_points_kept(), op.batch_alter_table("weighed_series") as series:
        series.drop_constraint(op.f(_NEW), type_="unique")
        series.drop_column("branch")
        series.create_unique_constraint(op.f(_OLD), ["case_number", "platform", "threads"])
    op.drop_column("cases", "operator_category")
    op.drop_column("runs", "branch")


_SET_BRANCH = sa.text("UPDATE runs SET branch = :branch WHERE number = :run")
_CONTENT = sa.text("SELECT content FROM documents WHERE run_number = :run")


def _branch(document: bytes) -> str | None:
    if b'"branch":"' not in document:  # as it is stored: so a large one without is not parsed
        return None
    branch = json.loads(document)["run"].get("branch")
    return fit(branch) if isinstance(branch, str) and branch.strip() else None


@contextmanager
def _change_points_kept() -> Iterator[None]:
    """While ``weighed_series`` changes: SQLite then makes it again, and the rows that refer to it would go with the old
    one."""
    if op.get_bind().dialect.name != "sqlite":
        yield
        return
    tables = ("change_points", "notices")
    for table in tables:
        op.execute(f"CREATE TEMPORARY TABLE kept_{table} AS SELECT * FROM {table}")
    for table in reversed(tables):
        op.execute(f"DELETE FROM {table}")
    yield
    for table in tables:
        op.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
        op.execute(f"DROP TABLE kept_{table}")
