"""What weighing histories came to is kept, with the change points that were found, who acknowledged them, and who was
alerted."""

import sqlalchemy as sa
from alembic import op

from opduel.server.models import columns

revision = "v0003"
down_revision = "v0002"


def upgrade() -> None:
    """Make the tables; they are filled when histories are weighed next."""
    op.create_table(
        "weighed_series",
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("case_number", sa.Integer(), sa.ForeignKey("cases.number", ondelete="CASCADE"), nullable=False),
        *columns(sa.Text(), "platform"),
        *columns(sa.Integer(), "threads", "run_count"),
        *columns(sa.DateTime(timezone=True), "newest", nullable=True),
        *columns(sa.Integer(), "method", "builds", "runs"),
        *columns(sa.Double(), "p_value", "minimal"),
        *columns(sa.JSON(), "oldest", "newest_build", nullable=True),
        *columns(sa.Double(), "drift_log", "drift_low", "drift_high"),
        sa.UniqueConstraint("case_number", "platform", "threads"),
    )
    op.create_table(
        "change_points",
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column(
            "series_number", sa.Integer(), sa.ForeignKey("weighed_series.number", ondelete="CASCADE"), nullable=False
        ),
        *columns(sa.Text(), "kind"),
        *columns(sa.JSON(), "before", "after"),
        *columns(sa.Integer(), "builds"),
        *columns(sa.Double(), "log_ratio", "ci_low", "ci_high", "p_value"),
        *columns(sa.DateTime(timezone=True), "found", "changed"),
        *columns(sa.DateTime(timezone=True), "gone", nullable=True),
        *columns(sa.Double(), "known_log", "known_low", "known_high"),
        *columns(sa.DateTime(timezone=True), "acknowledged", nullable=True),
        *columns(sa.Text(), "acknowledged_by", "note", nullable=True),
    )
    op.create_index(op.f("ix_change_points_series_number"), "change_points", ["series_number"])
    op.create_index(op.f("ix_change_points_changed"), "change_points", ["changed"])
    op.create_table(
        "notices",
        sa.Column(
            "change_point_number",
            sa.Integer(),
            sa.ForeignKey("change_points.number", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("receiver", sa.Text(), primary_key=True),
        *columns(sa.DateTime(timezone=True), "sent"),
    )


def downgrade() -> None:
    """Take it back, with all acknowledgements."""
    for table in ("notices", "change_points", "weighed_series"):
        op.drop_table(table)
