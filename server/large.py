"""Work on whole reports: store a posted one, write one to a file that is sent.

Small reports are worked on in a thread, large ones in a process (``subprocess_jobs``), which imports this module before
it is forked.
"""

import gzip
import json
from datetime import UTC, datetime
from typing import IO, Literal

from sqlalchemy import select

from opduel.reporters.document import from_text
from opduel.reporters.html import to_html
from opduel.server.answers import require_run
from opduel.server.causes import flames
from opduel.server.database import Database
from opduel.server.ingest import accept, readable
from opduel.server.models import Document
from opduel.server.queries import document_of
from opduel.server.storage import store

Form = Literal["json", "html", "flames"]
_COMPRESSION = 6


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


def write(
    database: Database, file: IO[bytes], run_number: int, form: Form, packed: bool, case: str | None = None
) -> int:
    """Write the run's report to ``file``, compressed by gzip if ``packed``, and return its length there in bytes. The
    form "flames" is the flame graphs of its ``case`` alone."""
    with database.reading() as session:
        document = document_of(session, run_number)
    content = _formed(document, form, case)  # takes long: the database need not wait
    del document
    if packed:
        with gzip.GzipFile(filename="", mode="wb", compresslevel=_COMPRESSION, fileobj=file, mtime=0) as archive:
            archive.write(content)
    else:
        file.write(content)
    file.flush()
    return file.tell()


def _formed(document: bytes, form: Form, case: str | None) -> bytes:
    if form == "json":
        return readable(document)
    if form == "html":
        return to_html(from_text(document.decode("utf-8"))).encode("utf-8")
    return json.dumps(flames(document, case), ensure_ascii=False, separators=(",", ":")).encode("utf-8")
