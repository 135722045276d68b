#!/usr/bin/env python3
"""What large reports, posted at the same time, cost the results server: its memory, and how long /healthz takes.

    .venv/bin/python benchmarks/server_posts.py [--sizes 8,24,63] [--dense] [--reads]

Starts a server on an empty SQLite database, posts one report of each size (MiB of JSON, made figures) at once, and asks
for /healthz all the while. A post that is answered 429 or 503 is repeated after its Retry-After. Memory is the resident
set of the server and its children, sampled every 20 ms: the peak, and what stays ten seconds after the last answer.
With --dense the reports are padded with as many small objects as the server accepts: the worst that a token can send.
With --reads all stored reports are then asked for at once, as report.json and as HTML.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.made_report import made_report
from benchmarks.server_pages import served_process
from opduel.reporters.document import to_bytes
from opduel.server.database import Database
from opduel.server.ingest import MOST_VALUES_PER_BYTE
from opduel.server.settings import DEFAULT_MAX_REPORT_BYTES
from opduel.server.tokens import add_token

MIB = 2**20
_SETTLED_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each size, and the memory and the latency."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="8,24,63", help="MiB, comma-separated; default: 8,24,63")
    parser.add_argument("--dense", action="store_true", help="pad the reports with small objects")
    parser.add_argument("--reads", action="store_true", help="afterwards ask for all reports at once, too")
    options = parser.parse_args(arguments)
    make = dense_body if options.dense else body
    bodies = [make(float(size), number) for number, size in enumerate(options.sizes.split(","))]
    with tempfile.TemporaryDirectory() as scratch:
        database = Database(f"sqlite:///{scratch}/results.sqlite")
        database.prepare()
        with database.writing() as session:
            token = add_token(session, "made", ["read", "write"], datetime.now(UTC))
        with served_process(database.url.render_as_string()) as (url, process):
            httpx.get(f"{url}/healthz", timeout=60, trust_env=False)  # by then all is imported
            watched = Watched(url, psutil.Process(process.pid))
            watched.during("posts", lambda: at_once([poster(url, token, one) for one in bodies]))
            if options.reads:
                runs = [f"made-{number}" for number in range(len(bodies))]
                paths = [f"/api/v1/runs/{run}/report" for run in runs] + [f"/runs/{run}/report.html" for run in runs]
                watched.during("reads", lambda: at_once([getter(url, path) for path in paths]))
        database.close()
    return 0


def body(mebibytes: float, number: int) -> bytes:
    """A post of about that size."""
    cases = 400
    small = posted(cases, 2, number)
    a_round = (len(posted(cases, 4, number)) - len(small)) / 2
    return posted(cases, max(2, round((mebibytes * MIB - len(small)) / a_round) + 2), number)


def dense_body(mebibytes: float, number: int) -> bytes:
    """A post of about that size with as many values as its size, or the server, allows."""
    size = int(mebibytes * MIB)
    plain = json.loads(posted(4, 2, number))
    objects = min(int(DEFAULT_MAX_REPORT_BYTES * MOST_VALUES_PER_BYTE) // 2 - 10_000, size // 10 - 1000)
    plain["report"]["run"]["padding"] = [{"a": 1.5}] * objects
    content = json.dumps(plain, separators=(",", ":")).encode()
    plain["report"]["run"]["text"] = "x" * max(0, size - len(content))
    return json.dumps(plain, separators=(",", ":")).encode()


def posted(cases: int, rounds: int, number: int) -> bytes:
    """A made report of so many cases, with so many samples each, as it is posted."""
    report = made_report(cases, rounds, seed=number + 1)
    report = replace(report, run={**report.run, "id": f"made-{number}"})
    document = json.loads(to_bytes(report))
    return json.dumps({"category": "made", "report": document}, separators=(",", ":")).encode()


class Watched:
    """A server whose memory and answers are observed while something is done."""

    def __init__(self, url: str, process: psutil.Process) -> None:
        """``process`` answers at ``url``."""
        self.url, self.process = url, process

    def during(self, name: str, action: Callable[[], None]) -> None:
        """Do it, and print what it cost."""
        before = self.resident()
        stop = threading.Event()
        sizes: list[int] = [before]
        waits: list[float] = []
        threads = [
            threading.Thread(target=self._sample, args=(stop, sizes)),
            threading.Thread(target=self._ask, args=(stop, waits)),
        ]
        for thread in threads:
            thread.start()
        began = time.perf_counter()
        action()
        took = time.perf_counter() - began
        stop.set()
        for thread in threads:
            thread.join()
        time.sleep(_SETTLED_S)
        print(
            f"{name}: {took:.1f} s; memory {before / MIB:.0f} MiB before, {max(sizes) / MIB:.0f} at the peak, "
            f"{self.resident() / MIB:.0f} afterwards; /healthz median {statistics.median(waits) * 1e3:.0f} ms, "
            f"longest {max(waits) * 1e3:.0f} ms"
        )

    def resident(self) -> int:
        """Bytes of the server and its children."""
        total = 0
        for one in [self.process, *self.process.children(recursive=True)]:
            try:
                total += one.memory_info().rss
            except psutil.NoSuchProcess:
                pass
        return total

    def _sample(self, stop: threading.Event, sizes: list[int]) -> None:
        while not stop.wait(0.02):
            sizes.append(self.resident())

    def _ask(self, stop: threading.Event, waits: list[float]) -> None:
        with httpx.Client(base_url=self.url, timeout=120, trust_env=False) as client:
            while True:
                began = time.perf_counter()
                client.get("/healthz").raise_for_status()
                waits.append(time.perf_counter() - began)
                if stop.wait(0.1):
                    return


def at_once(actions: Sequence[Callable[[], str]]) -> None:
    """Do all of them at the same time, and print what each says."""
    with ThreadPoolExecutor(len(actions)) as pool:
        for line in pool.map(lambda action: action(), actions):
            print(f"  {line}")


def poster(url: str, token: str, content: bytes) -> Callable[[], str]:
    """Posts ``content`` until it is stored."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def post() -> str:
        began, later = time.perf_counter(), 0
        with httpx.Client(base_url=url, timeout=600, trust_env=False) as client:
            while True:
                answer = client.post("/api/v1/reports", content=content, headers=headers)
                if answer.status_code not in (429, 503):
                    break
                later += 1
                time.sleep(float(answer.headers["Retry-After"]) + random.random())
        took = time.perf_counter() - began
        return (
            f"{len(content) / MIB:.1f} MiB: {answer.status_code} after {took:.1f} s, {later} times told to come later"
        )

    return post


def getter(url: str, path: str) -> Callable[[], str]:
    """Asks for ``path`` until it is answered."""

    def get() -> str:
        began, later = time.perf_counter(), 0
        with httpx.Client(base_url=url, timeout=600, trust_env=False) as client:
            while (answer := client.get(path)).status_code in (429, 503):
                later += 1
                time.sleep(float(answer.headers["Retry-After"]) + random.random())
        took, size = time.perf_counter() - began, len(answer.content) / MIB
        return f"{path}: {answer.status_code}, {size:.1f} MiB after {took:.1f} s, {later} times told to come later"

    return get


if __name__ == "__main__":
    sys.exit(main())
