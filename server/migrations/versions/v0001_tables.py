"""The tables of the first version: those of the models, until a second version changes them and this one writes out
what it makes."""

from alembic import op

from opduel.server.models import Base

revision = "v0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    Base.metadata.create_all(op.get_bind())


def downgrade() -> None:
    """Drop the tables, with all that is in them."""
    Base.metadata.drop_all(op.get_bind())
