"""Where alembic runs our migrations: on the connection that it is given, within that connection's transaction."""

from alembic import context

from opduel.server.models import Base

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    transactional_ddl=True,
    compare_type=True,
    render_as_batch=connection.dialect.name == "sqlite",  # it can hardly alter a table
)
with context.begin_transaction():
    context.run_migrations()
