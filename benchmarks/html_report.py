#!/usr/bin/env python3
"""How large the HTML report is, and how soon a browser shows it: size, time to make, and time to the first plot.

    .venv/bin/python benchmarks/html_report.py
    .venv/bin/python benchmarks/html_report.py --cases 3300 --rounds 6
    .venv/bin/python benchmarks/html_report.py --report reports/.../report.json
    .venv/bin/python benchmarks/html_report.py --flames 20
    .venv/bin/python benchmarks/html_report.py --flames 20 --keep after.html --beside before.html

With ``--flames N`` N cases have two flame graphs of 400 frames, and the page is opened at the first of them: further
lines say when its flame graph is drawn, and when the browser has handed on the frame that has it. ``--keep`` keeps the
page, and ``--beside`` opens another one, such as that of an earlier version, in turn with it.
The figures in it are made unless a report is given. Headless Chromium opens it again each time, in a fresh profile; the
time is from the beginning of the navigation to the plot of all cases being in the page, and to
the frame after it.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, sync_playwright  # noqa: E402

from benchmarks.made_report import made_report  # noqa: E402
from opduel.reporters import read_report  # noqa: E402
from opduel.reporters.html import to_html  # noqa: E402
from opduel.reporters.html.cases import fragment  # noqa: E402

TIMES = """() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done({
    drawn: performance.getEntriesByName('opduel-effects')[0].startTime,
    shown: performance.now(),
    flame: performance.getEntriesByName('opduel-flame')[0]?.startTime,
    flameShown: window.flameShown,
    table: performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint').startTime,
}))))"""

# A message that is sent while a frame is made arrives after it.
AFTER_FLAME = """(() => {
    const mark = performance.mark.bind(performance);
    performance.mark = (name, ...others) => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => { window.flameShown = window.flameShown || performance.now(); };
        if (name === 'opduel-flame') channel.port2.postMessage(0);
        return mark(name, ...others);
    };
})()"""


def main() -> None:
    """Make the page, open it, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--report", type=Path, help="a report.json, instead of made figures")
    parser.add_argument("--flames", type=int, default=0, help="cases with flame graphs")
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the page there, too")
    parser.add_argument("--beside", type=Path, metavar="FILE", help="a page of the same report, opened in turn")
    options = parser.parse_args()
    report = (
        read_report(options.report)
        if options.report
        else made_report(options.cases, options.rounds, flames=options.flames)
    )
    explained = [one.case for one in report.comparisons if one.cause]
    began = time.perf_counter()
    text = to_html(report)
    seconds = time.perf_counter() - began
    samples = sum(len(one.samples) for one in report.comparisons)
    size = len(text.encode()) / 1e6
    print(f"{len(report.comparisons)} cases, {samples} process pairs: {size:.2f} MB, made in {seconds:.2f} s")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "report.html"
        path.write_text(text, encoding="utf-8")
        if options.keep:
            shutil.copy(path, options.keep)
        pages = [path, *([options.beside] if options.beside else [])]
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        hash_ = f"#{fragment(explained[0])}" if explained else ""
        tries = [
            [_opened(browser, one.absolute().as_uri() + hash_, bool(explained)) for one in pages]
            for _ in range(options.tries)
        ]
        browser.close()
    lines = [("table", "first paint"), ("drawn", "all cases drawn"), ("shown", "frame after it")]
    lines += [("flame", "flame graph drawn"), ("flameShown", "frame with it")] if explained else []
    for page, opened in zip(pages, zip(*tries, strict=True), strict=True):
        print(f"{page.name}:")
        for name, what in lines:
            times = [one[name] for one in opened]
            print(f"{what:18} min {min(times):5.0f}  median {statistics.median(times):5.0f}  max {max(times):5.0f} ms")


def _opened(browser: Browser, address: str, with_flame: bool) -> dict[str, float]:
    """Milliseconds since the navigation began, of one opening."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(AFTER_FLAME)
    page.goto(address, wait_until="commit")
    page.wait_for_selector("#effects-plot svg", state="attached")
    if with_flame:
        page.wait_for_function("window.flameShown")
    times: dict[str, float] = page.evaluate(TIMES)
    context.close()
    return times


if __name__ == "__main__":
    main()
