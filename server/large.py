"""Work on whole reports: store a posted one, write one as HTML to a file that is sent.

Small reports are worked on in a thread, large ones in a process (``subprocess_jobs``), which imports this module before
it is forked.
"""

import json
from datetime import UTC, datetime
from typing import IO

from sqlalchemy import select

from opduel.reporters.document import from_text
from opduel.reporters.html import to_html
from opduel.server.answers import require_run
from opduel.server.causes import flames
from opduel.server.database import Database
from opduel.server.ingest import accept
from opduel.server.models import Document
from opduel.server.queries import document_of
from opduel.server.storage import store


def keep(database: Database, body: IO[bytes], key: str | None, most: int, token: str) -> tuple[str, bool]:
    """Store the report in ``body``. Return the run's id, and whether it is new. Raises Refused: the report can't be
    stored."""
    body.seek(0)
    submission = accept(body.read(), key, most)
    with database.writing() as session:
        return submission.facts.id, store(session, submission, token, datetime.now(UTC))


def number_and_size(database: Database, run_id: str) -> tuple[int, int]:
    """Return the number of a run, and the size of its report in bytes, uncompressed. Raises HTTPException: 404."""
    with database.reading() as session:
        number = require_run(session, run_id).number
        return number, session.execute(select(Document.size).where(Document.run_number == number)).scalar_one()


def write(database: Database, file: IO[bytes], run_number: int, case: str | None) -> int:
    """Write the run's report as one HTML file to ``file``, or only the flame graphs of a ``case`` as JSON, and return
    its length in bytes."""
    with database.reading() as session:
        document = document_of(session, run_number)
    if case is None:
        text = to_html(from_text(document.decode("utf-8")))
    else:
        text = json.dumps(flames(document, case), ensure_ascii=False, separators=(",", ":"))
    file.write(text.encode("utf-8"))
    file.flush()
    return file.tell()
