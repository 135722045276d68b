"""Make every listed release, or the given ones, and print a tab-separated line about each."""

import argparse
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.framework_data import load_releases
from opduel.driver.builds.process import run
from opduel.driver.builds.resolve import resolve_build
from opduel.frameworks import Framework, framework_names, get_framework
from opduel.records import OpduelError


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every build was made, imported and ran the script; 3 if one did not."""
    parser = argparse.ArgumentParser(prog="python -m opduel.driver.builds.check", description=__doc__)
    parser.add_argument("request", nargs="*", help="builds to check (default: every release in the framework's data)")
    parser.add_argument("--framework", choices=framework_names(), default=framework_names()[0])
    parser.add_argument("--exec_dir", type=Path, help="the build cache (default: the user's cache folder)")
    parser.add_argument("--run", type=Path, metavar="SCRIPT", help="a script to run in each build's interpreter")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        framework = get_framework(options.framework)
        requests = options.request or list(load_releases(framework).recipes)
    except OpduelError as error:
        parser.exit(error.exit_code, f"{error}\n")
    cache = BuildCache(options.exec_dir)
    good = [_check(request, framework, cache, options.run) for request in requests]
    return 0 if all(good) else 3


def _check(request: str, framework: Framework, cache: BuildCache, script: Path | None) -> bool:
    started = time.monotonic()
    try:
        build = resolve_build(request, framework, cache)
    except OpduelError as error:
        print(request, f"FAILED: {error}", sep="\t", flush=True)
        return False
    seconds = time.monotonic() - started
    words, ok = "imports", True
    if script:
        outcome = run([build.interpreter, script], timeout=300, environment=framework.environment(1))
        words, ok = (outcome.stdout.strip() if outcome.ok else f"FAILED: {outcome.output_tail}"), outcome.ok
    print(request, build.version, f"Python {build.python}", f"{seconds:.2f} s", words, sep="\t", flush=True)
    return ok


if __name__ == "__main__":
    raise SystemExit(main())
