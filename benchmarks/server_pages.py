"""How long the results server's pages take over a long history: 1,000 made runs of 400 cases, unless told otherwise.

    .venv/bin/python benchmarks/server_pages.py [--runs 1000] [--cases 400] [--tries 5] [--database URL] [--folder DIR]

The reports (benchmarks/made_nights.py) go through the server's own validation and storage, then a server is started
on the database, and every page asked for over HTTP; times are those until the whole page is there.  With --folder an
SQLite database is kept, and taken as it is if it is there.  All reports but the newest come without their samples,
which no page but the HTML report reads, unless --samples is given.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO
from urllib.parse import quote

import httpx
from sqlalchemy import func, select

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.made_nights import made_reports
from opduel.records import Report
from opduel.reporters.document import to_bytes
from opduel.server.database import Database
from opduel.server.ingest import accept
from opduel.server.models import Case, Document, HostRun, Result, Run
from opduel.server.settings import DEFAULT_MAX_REPORT_BYTES
from opduel.server.storage import store

ROOT = Path(__file__).resolve().parent.parent


def fill(database: Database, runs: int, cases: int, samples: bool = False) -> float:
    """Put the made reports in, as posts would be; the seconds that took, without making them."""
    spent = 0.0
    for report in made_reports(runs, cases, newest_samples_only=not samples):
        spent += put(database, report)
    return spent


def put(database: Database, report: Report) -> float:
    """Store a report as a post would; the seconds that took."""
    posted = json.dumps({"category": "nightly", "report": json.loads(to_bytes(report))}).encode("utf-8")
    began = time.perf_counter()
    submission = accept(posted, report.run.id, DEFAULT_MAX_REPORT_BYTES)
    with database.writing() as session:
        store(session, submission, "made", datetime.now(UTC))
    return time.perf_counter() - began


@contextmanager
def served(database: str) -> Iterator[str]:
    """A server's process on ``database``; its address."""
    with served_process(database) as (url, _):
        yield url


@contextmanager
def served_process(database: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The same, with the process."""
    command = [sys.executable, "-m", "opduel.server", "--database", database, "--open_read", "--port", "0"]
    command += ["--commit_url", "https://git.example.org/commit/{commit}"]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as log,
        subprocess.Popen(command, cwd=ROOT, stderr=log, text=True) as process,
    ):
        try:
            yield _address(process, log), process
        finally:
            process.terminate()


def _address(process: subprocess.Popen[str], log: IO[str]) -> str:
    """What the server says at its start."""
    while True:
        log.seek(0)
        found = re.search(r"(http://[^,\s]+),", log.read())
        if found is not None:
            return found[1]
        if process.poll() is not None:
            raise SystemExit("the server ended")
        time.sleep(0.05)


def pages(database: Database) -> dict[str, str]:
    """What is asked for: a name, and the path."""
    with database.reading() as session:
        newest, other = session.scalars(select(Run.run_id).order_by(Run.started.desc()).limit(2)).all()
        count = session.scalar(select(func.count(Run.number))) or 0
        host = session.scalars(select(HostRun.host).limit(1)).one()
        drifting = session.scalar(select(Case.number).order_by(Case.number).limit(1))
    return {
        "latest runs": "/",
        "the last page of runs": f"/?page={-(-count // 50)}",
        "runs, filtered": "/?verdict=regressed&text=Change",
        "a run": f"/runs/{newest}",
        "its report as HTML": f"/runs/{newest}/report.html",
        "a case's history": f"/cases/{drifting}",
        "two runs compared": f"/compare?first={other}&second={newest}",
        "search": "/search?q=softmax",
        "search for a commit": "/search?q=Change%20number%2012",
        "drift": "/drift",
        "hosts": "/hosts",
        "a host": f"/hosts/{quote(host)}",
    }


def analysed(client: httpx.Client) -> float:
    """Seconds until the drift page has everything, from nothing."""
    began = time.perf_counter()
    while "Being weighed" in client.get("/drift").text:
        time.sleep(0.2)
    return time.perf_counter() - began


def weighed_at(url: str) -> float:
    """The same, of the server at ``url``."""
    with httpx.Client(base_url=url, timeout=600, trust_env=False) as client:
        return analysed(client)


def sizes(database: Database) -> str:
    """How much is stored."""
    with database.reading() as session:
        counts = [session.scalar(select(func.count()).select_from(table)) or 0 for table in (Run, Result)]
        size, packed = session.execute(select(func.sum(Document.size), func.sum(func.length(Document.content)))).one()
    return (
        f"{counts[0]} runs, {counts[1]} results; documents {size / 2**20:.0f} MiB, {packed / 2**20:.0f} MiB compressed"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--database", metavar="URL", help="an empty one; default: SQLite in a folder of its own")
    parser.add_argument("--folder", type=Path, help="where that SQLite database is kept")
    parser.add_argument("--samples", action="store_true", help="in all reports: makes and stores several times more")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        database = Database(options.database or f"sqlite:///{folder.absolute()}/results.sqlite")
        database.prepare(migrate=True)
        with database.reading() as session:
            is_there = bool(session.scalar(select(func.count(Run.number))))
        if not is_there:
            seconds = fill(database, options.runs, options.cases, options.samples)
            print(f"storing took {seconds / options.runs * 1e3:.0f} ms a report")
        print(sizes(database))
        with served(database.url.render_as_string(hide_password=False)) as url:
            measure(url, pages(database), options.tries)
        database.close()
    return 0


def measure(url: str, asked: dict[str, str], tries: int) -> None:
    """Ask for every page that often, and print the median and the longest time, and the page's size."""
    with httpx.Client(base_url=url, timeout=600, trust_env=False) as client:
        print(f"drift from nothing: {analysed(client):.1f} s in the background")
        for name, path in asked.items():
            times = []
            for _ in range(tries):
                began = time.perf_counter()
                answer = client.get(path)
                times.append((time.perf_counter() - began) * 1e3)
                answer.raise_for_status()
            size, sent = len(answer.content) / 1024, answer.num_bytes_downloaded / 1024
            took = f"median {statistics.median(times):6.0f} ms  longest {max(times):6.0f} ms"
            print(f"{name:24} {took}  {size:7.0f} KiB, {sent:5.0f} KiB as sent")


if __name__ == "__main__":
    sys.exit(main())
