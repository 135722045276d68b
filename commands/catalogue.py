"""python -m opduel.commands.catalogue: write a catalogue's specs from a build's registry."""

import sys
from collections.abc import Sequence

from opduel.commands.entry import DONE, log, run_command
from opduel.commands.option_types import path
from opduel.commands.options import Parser
from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.catalogue.apply import apply_rules
from opduel.driver.catalogue.registry import ask_registry
from opduel.driver.catalogue.rules import USUAL, catalogue_names, load_rules
from opduel.driver.catalogue.write import spec_files, write_specs
from opduel.frameworks import framework_names, get_framework
from opduel.frameworks.base import SPECIFICATIONS
from opduel.records import UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_command("opduel.commands.catalogue", lambda: _catalogue(arguments))


def catalogue_parser() -> Parser:
    parser = Parser(prog="python -m opduel.commands.catalogue", description=__doc__)
    add = parser.options()
    add("--framework", "whose catalogue", choices=framework_names(), default=framework_names()[0])
    add("--catalogue NAME", "which of its catalogues, if it has several: the name of a file of rules", default=USUAL)
    add("--exec_dir DIR", "the build cache", type=path)
    actions = parser.add_subparsers(dest="action", required=True)
    write = actions.add_parser("write", help="write the specs of all categories, and the bundle that lists them")
    write.options()("build BUILD", "the build whose registry is read")
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
    registry = ask_registry(resolve_build(options.build, framework, cache), framework, rules.namespaces)
    catalogue = apply_rules(rules, registry)
    write_specs(spec_files(catalogue, rules, framework.name), rules.folder, SPECIFICATIONS)
    count = sum(len(tests) for tests in catalogue.tests.values())
    log.info("%d operators in %d specs; %d left out", count, len(catalogue.tests), len(catalogue.left_out))
    return DONE


if __name__ == "__main__":
    sys.exit(main())
