"""python -m opduel BUILD [SCRIPT ...]: runs Python in a build's environment, so that it can import opduel there."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from opduel.commands.entry import run_command
from opduel.commands.options import Parser
from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import Framework, framework_names, get_framework, worker_environment
from opduel.inside import ROOT
from opduel.records import Build, RunError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns only when it could not start the build's interpreter."""
    return run_command("python -m opduel", lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="python -m opduel", description=__doc__, allow_abbrev=False)
    parser.add_argument("--framework", choices=framework_names(), default=framework_names()[0], help="whose build")
    parser.add_argument("build", metavar="BUILD", help="a release, an environment or a Python interpreter")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="what that interpreter is given: a script, or -c CODE")
    options = parser.parse_args(arguments)
    framework = get_framework(options.framework)
    build = resolve_build(options.build, framework, BuildCache())
    environment = inside_environment(build, framework, os.environ)
    sys.stdout.flush()
    try:
        os.execve(build.interpreter, [build.interpreter, *options.rest], environment)
    except OSError as error:
        raise RunError(f"{build.interpreter}: could not be started ({error.strerror})") from None


def inside_environment(build: Build, framework: Framework, own: Mapping[str, str]) -> dict[str, str]:
    """As the harness runs a build, with one thread, but for what the user's variables say; opduel can be imported."""
    fixed = {**worker_environment(), **framework.environment(1), **framework.profiling_environment()}
    path = [build.environment.get("PYTHONPATH", ""), own.get("PYTHONPATH", ""), ROOT]
    environment = {**fixed, **own, **build.environment}
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}


if __name__ == "__main__":
    sys.exit(main())
