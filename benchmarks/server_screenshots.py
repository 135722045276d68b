#!/usr/bin/env python3
"""The pictures of the results server in docs/images: runs, a run, a history, drift, a history on a phone, and hosts.

    .venv/bin/python benchmarks/server_screenshots.py

They are of a server with a made history (benchmarks/made_nights.py), and of one with made
hosts (benchmarks/made_hosts.py).
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Page, expect  # noqa: E402

from benchmarks.made_hosts import NOISY, made_host_reports  # noqa: E402
from benchmarks.made_nights import case_id  # noqa: E402
from benchmarks.screenshots import IMAGES, PHONE, chromium, opened_page, take  # noqa: E402
from benchmarks.server_pages import fill, put, served, weighed_at  # noqa: E402
from opduel.server.database import Database  # noqa: E402
from opduel.server.queries import (  # noqa: E402
    RunFilter,
    latest_runs,
    search_cases,
)

DESK = {"width": 1100, "height": 640}


def main() -> None:
    """Write docs/images/server-*.png."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=IMAGES)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        database = Database(f"sqlite:///{scratch}/results.sqlite")
        database.prepare()
        fill(database, options.runs, options.cases)
        with database.reading() as session:
            case = search_cases(session, case_id(0))[0].number
            run = latest_runs(session, RunFilter(verdict="regressed"), 1)[0].run_id
        with served(database.url.render_as_string()) as url, chromium() as browser:
            weighed_at(url)
            for name, path, size, scheme in (
                ("server-runs", "/", DESK, "light"),
                ("server-run", f"/runs/{run}", DESK, "light"),
                ("server-history", f"/cases/{case}", DESK, "light"),
                ("server-history-dark", f"/cases/{case}", DESK, "dark"),
                ("server-drift", "/drift", DESK, "light"),
                ("server-phone", f"/cases/{case}", PHONE, "light"),
            ):
                with opened_page(browser, url + path, size, scheme) as page:  # type: ignore[arg-type]
                    drawn(page)
                    take(page, options.folder / f"{name}.png")
        database.close()
        of_hosts = Database(f"sqlite:///{scratch}/hosts.sqlite")
        of_hosts.prepare()
        for report in made_host_reports(50, 160):
            put(of_hosts, report)
        with served(of_hosts.url.render_as_string()) as url, chromium() as browser:
            for name, path, scheme in (("server-hosts", "/hosts", "light"), ("server-host", f"/hosts/{NOISY}", "dark")):
                with opened_page(browser, url + path, DESK, scheme) as page:  # type: ignore[arg-type]
                    drawn(page)
                    take(page, options.folder / f"{name}.png")
        of_hosts.close()


def drawn(page: Page) -> None:
    """Wait until every plot of the page is there; the page of an error has no navigation, and is refused."""
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    for figure in page.locator("figure").all():
        expect(figure.locator("svg").last).to_be_visible()


if __name__ == "__main__":
    main()
