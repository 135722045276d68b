"""python -m opduel.commands.catalogue: write a catalogue's specs from a build's registry, or list what they cover."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

from opduel.commands.coverage_text import BuildCoverage, coverage_text, package_coverage_text
from opduel.commands.entry import DONE, log, run_command
from opduel.commands.option_types import path
from opduel.commands.options import Parser
from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.catalogue.apply import apply_rules
from opduel.driver.catalogue.registry import ask_registry
from opduel.driver.catalogue.rules import USUAL, Rules, catalogue_names, load_rules
from opduel.driver.catalogue.write import spec_files, write_specs
from opduel.frameworks import Framework, framework_names, get_framework
from opduel.frameworks.base import SPECIFICATIONS
from opduel.harness.other_runs.smoke_check import SmokeCheck, smoke_check
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import UsageError
from opduel.reporters.stream import print_result

PEER_FILE = "opperf.json"  # in the framework's data: operator -> whether that tool measures its backward
EVERY = 200  # cases between two lines of progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_command("opduel.commands.catalogue", lambda: _catalogue(arguments))


def catalogue_parser() -> Parser:
    """The parser of all its options."""
    parser = Parser(prog="python -m opduel.commands.catalogue", description=__doc__)
    add = parser.options()
    add("--framework", "whose catalogue", choices=framework_names(), default=framework_names()[0])
    add("--catalogue NAME", "which of its catalogues, if it has several: the name of a file of rules", default=USUAL)
    add("--exec_dir DIR", "the build cache", type=path)
    actions = parser.add_subparsers(dest="action", required=True)
    write = actions.add_parser("write", help="write the specs of all categories, and the bundle that lists them")
    write.options()("build BUILD", "the build whose registry is read")
    coverage = actions.add_parser(
        "coverage", help="try every case once, and list in Markdown what ran and what did not"
    ).options()
    coverage("build BUILD", "the builds to try them on; the report covers the first one in full", nargs="+")
    coverage("-b --benchmark_file SPEC", "the spec. Default: that of the whole catalogue")
    return parser


def _catalogue(arguments: Sequence[str] | None) -> int:
    options = catalogue_parser().parse_args(arguments)
    framework = get_framework(options.framework)
    cache = BuildCache(options.exec_dir)
    names = catalogue_names(framework)
    if options.catalogue not in names:
        fix = f"use one of {', '.join(names)}" if names else "write its specs by hand"
        raise UsageError(f"--catalogue {options.catalogue}: {framework.name} has no such catalogue: {fix}")
    rules = load_rules(framework, options.catalogue)
    if options.action == "write":
        return _write(options.build, framework, rules, cache)
    return _coverage(options, framework, rules, cache)


def _write(request: str, framework: Framework, rules: Rules, cache: BuildCache) -> int:
    registry = ask_registry(resolve_build(request, framework, cache), framework, rules.namespaces)
    catalogue = apply_rules(rules, registry)
    write_specs(spec_files(catalogue, rules, framework.name), rules.folder, SPECIFICATIONS)
    count = sum(len(tests) for tests in catalogue.tests.values())
    log.info("%d operators in %d specs; %d left out", count, len(catalogue.tests), len(catalogue.left_out))
    return DONE


def _coverage(options: argparse.Namespace, framework: Framework, rules: Rules, cache: BuildCache) -> int:
    only = None if options.benchmark_file == rules.bundle else options.benchmark_file
    spec_path = find_spec(only or rules.bundle)
    cases = expand_cases(load_spec(spec_path), metrics=["time"])
    covered: list[BuildCoverage] = []
    for request in options.build:
        build = resolve_build(request, framework, cache)
        registry = ask_registry(build, framework, rules.namespaces)
        attempts: list[SmokeCheck] = []
        for attempt in smoke_check(build, framework, cases, profile=not rules.namespaces):
            attempts.append(attempt)
            if len(attempts) % EVERY == 0:
                log.info("%s: %d of %d cases tried", request, len(attempts), len(cases))
        left_out: Mapping[str, str] = (
            {} if covered else apply_rules(rules, registry).left_out
        )  # of the first, which is reported in full
        covered.append(BuildCoverage(request, registry, tuple(attempts), left_out))
    if rules.namespaces:
        text = package_coverage_text(framework.name, options.catalogue, covered, rules, only)
    else:
        options_text = "" if framework.name == framework_names()[0] else f"--framework {framework.name} "
        text = coverage_text(covered, _peer(framework), options=options_text, bundle=rules.bundle, spec=only)
    print_result(text)
    return DONE


def _peer(framework: Framework) -> Mapping[str, bool]:
    """The operators that the framework's own tool measures, and whether it does their backward; empty if unknown."""
    path = framework.specifications / PEER_FILE
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not readable ({error}): restore it") from None


if __name__ == "__main__":
    sys.exit(main())
