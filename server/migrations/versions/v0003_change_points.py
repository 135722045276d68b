"""What weighing histories came to is kept, with the change points that were found, who acknowledged them, and who was
alerted."""

import sqlalchemy as sa
from alembic import op

revision = "v0003"
down_revision = "v0002"


def upgrade() -> None:
    """Make the tables; they are filled when histories are weighed next."""
    op.create_table(
        "weighed_series",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("case_number", sa.Integer(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("run_count", sa.Integer(), nullable=False),
        sa.Column("newest", sa.DateTime(timezone=True), nullable=True),
        sa.Column("method", sa.Integer(), nullable=False),
        sa.Column("builds", sa.Integer(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("p_value", sa.Double(), nullable=False),
        sa.Column("minimal", sa.Double(), nullable=False),
        sa.Column("oldest", sa.JSON(), nullable=True),
        sa.Column("newest_build", sa.JSON(), nullable=True),
        sa.Column("drift_log", sa.Double(), nullable=False),
        sa.Column("drift_low", sa.Double(), nullable=False),
        sa.Column("drift_high", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["case_number"], ["cases.number"], name=op.f("fk_weighed_series_case_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_weighed_series")),
        sa.UniqueConstraint(
            "case_number", "platform", "threads", name=op.f("uq_weighed_series_case_number_platform_threads")
        ),
    )
    op.create_table(
        "change_points",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("series_number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("before", sa.JSON(), nullable=False),
        sa.Column("after", sa.JSON(), nullable=False),
        sa.Column("builds", sa.Integer(), nullable=False),
        sa.Column("log_ratio", sa.Double(), nullable=False),
        sa.Column("ci_low", sa.Double(), nullable=False),
        sa.Column("ci_high", sa.Double(), nullable=False),
        sa.Column("p_value", sa.Double(), nullable=False),
        sa.Column("found", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed", sa.DateTime(timezone=True), nullable=False),
        sa.Column("gone", sa.DateTime(timezone=True), nullable=True),
        sa.Column("known_log", sa.Double(), nullable=False),
        sa.Column("known_low", sa.Double(), nullable=False),
        sa.Column("known_high", sa.Double(), nullable=False),
        sa.Column("acknowledged", sa.DateTime(timezone=True), nullable=True),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["series_number"],
            ["weighed_series.number"],
            name=op.f("fk_change_points_series_number"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_change_points")),
    )
    op.create_index(op.f("ix_change_points_series_number"), "change_points", ["series_number"])
    op.create_index(op.f("ix_change_points_changed"), "change_points", ["changed"])
    op.create_table(
        "notices",
        sa.Column("change_point_number", sa.Integer(), nullable=False),
        sa.Column("receiver", sa.Text(), nullable=False),
        sa.Column("sent", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["change_point_number"],
            ["change_points.number"],
            name=op.f("fk_notices_change_point_number"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("change_point_number", "receiver", name=op.f("pk_notices")),
    )


def downgrade() -> None:
    """Take it back, with all acknowledgements."""
    for table in ("notices", "change_points", "weighed_series"):
        op.drop_table(table)
