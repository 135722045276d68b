"""Why a verdict is what it is, and why a run can't be trusted: with the results, where pages find it.

They are taken from the stored reports, each of which is read once.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

from opduel.server.models import fit

revision = "v0002"
down_revision = "v0001"

_LONGEST = 1000  # characters


def upgrade() -> None:
    """Add the columns, and fill them."""
    op.add_column("results", sa.Column("note", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("distrust", sa.Text(), nullable=True))
    connection = op.get_bind()
    runs = connection.execute(sa.text("SELECT number, framework, trusted FROM runs ORDER BY number")).all()
    for number, framework, trusted in runs:
        found = connection.execute(sa.text("SELECT content FROM documents WHERE run_number = :run"), {"run": number})
        document = json.loads(zlib.decompress(found.scalar_one()))
        notes = [{"run": number, "framework": framework, **one} for one in _notes(document)]
        if notes:
            connection.execute(_SET_NOTE, notes)
        if not trusted:
            connection.execute(_SET_DISTRUST, {"run": number, "reasons": _distrust(document)})


def downgrade() -> None:
    """Remove the columns; without a batch, which on SQLite rebuilds the table and would lose its rows' documents."""
    op.drop_column("results", "note")
    op.drop_column("runs", "distrust")


_SET_NOTE = sa.text(
    "UPDATE results SET note = :note WHERE run_number = :run AND case_number = "
    '(SELECT number FROM cases WHERE framework = :framework AND "case" = :name)'
)
_SET_DISTRUST = sa.text("UPDATE runs SET distrust = :reasons WHERE number = :run")


def _notes(document: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for one in document["comparisons"]:
        note, failure = one.get("note") or "", one.get("failure") or {}
        if note and note != failure.get("reason"):
            yield {"name": one["case"], "note": fit(note, _LONGEST)}


def _distrust(document: Mapping[str, Any]) -> str | None:
    reasons = (document["run"].get("trust") or document["run"].get("validity") or {}).get("reasons")
    return fit("; ".join(map(str, reasons)), _LONGEST) or None if isinstance(reasons, list) else None
