"""run_bench.py --spec_from: the operator calls of a network, written as a spec."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from opduel.commands.builds import usual_build
from opduel.commands.config import config_path, read_config
from opduel.commands.entry import DONE, log
from opduel.commands.option_types import path
from opduel.commands.options import NETWORK_FORMS, Parser
from opduel.commands.overwrite_check import refuse_overwriting
from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.catalogue.network import Input, ask_network, network_spec, network_test, operator_tests
from opduel.driver.catalogue.rules import load_rules
from opduel.frameworks import framework_names, get_framework
from opduel.frameworks.base import SPECIFICATIONS
from opduel.harness.specs import expand_cases, load_spec
from opduel.harness.specs.schema import SCHEMA_FILE
from opduel.records import UsageError
from opduel.records.case import DTYPES
from opduel.reporters.stream import print_result
from opduel.support.atomic import check_file, write_atomically
from opduel.support.text import counted

MAX_SIZE = 2**31 - 1
_SHAPE = re.compile(rf"(?P<name>[^=]+)=(?P<sizes>[0-9]+(,[0-9]+)*)(:(?P<dtype>{'|'.join(DTYPES)}))?\Z")


def spec_from_parser(positional: bool = False) -> Parser:
    """The parser of --spec_from and the options that go with it; with ``positional``, the network is an argument."""
    parser = Parser(prog="run_bench.py --spec_from", description=__doc__)
    add = parser.options()
    if positional:
        add("spec_from NETWORK", NETWORK_FORMS)
    else:
        add("--spec_from NETWORK", NETWORK_FORMS, required=True)
    add(
        "--shape NAME=SIZES",
        "the shape of an input: data=1,3,224,224, or with a dtype data=1,3,224,224:float16; repeatable",
        type=shape,
        action="append",
        default=[],
    )
    add("--with_network", "also write a case of the whole network, with the checksums of its files")
    add("--build BUILD", "the build that infers shapes and types (default: the treatment)")
    add("--output FILE", "where the spec is written (default: standard output)", type=path)
    add("--framework", "the network's", choices=framework_names(), default=framework_names()[0])
    add("--exec_dir DIR", "the build cache (default: in the user's cache folder)", type=path)
    return parser


def shape(text: str) -> tuple[str, Input]:
    """``data=1,3,224,224`` -> name and input."""
    match = _SHAPE.match(text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=SIZES or NAME=SIZES:DTYPE, such as data=1,3,224,224")
    sizes = [int(size) for size in match["sizes"].split(",") if len(size) <= len(str(MAX_SIZE))]
    if len(sizes) <= match["sizes"].count(",") or not all(1 <= size <= MAX_SIZE for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r}: sizes are from 1 to {MAX_SIZE}")
    return match["name"], Input(sizes, match["dtype"] or "float32")


def write_spec_from(arguments: Sequence[str], parser: Parser | None = None) -> int:
    """Ask the build and write the spec; returns the exit code, or raises an OpduelError that has it. ``parser``: by
    default, that of ``--spec_from``."""
    options = (parser or spec_from_parser()).parse_args(arguments)
    framework = get_framework(options.framework)
    inputs = dict(options.shape)
    if len(inputs) < len(options.shape):
        raise UsageError("--shape: one input is given twice: keep one")
    output: Path | None = options.output
    if output and output.suffix != ".json":
        raise UsageError(f"--output {output}: the name of a spec must end in .json")
    if output:
        check_file(output, "output")
        refuse_overwriting({"--spec_from": [Path(options.spec_from)]}, "--output", [output])
    request = options.build or usual_build("treatment", read_config(config_path()), framework, "build")
    build = resolve_build(request, framework, BuildCache(options.exec_dir))
    network = ask_network(build, framework, options.spec_from, inputs)
    schema = f"./{SCHEMA_FILE.name}" if output and output.absolute().parent == SPECIFICATIONS else None
    name = Path(options.spec_from).name
    tests = operator_tests(network, name, load_rules(framework))
    if options.with_network:
        own = {
            input_name: value.shape if value.dtype == "float32" else vars(value) for input_name, value in inputs.items()
        }
        tests.insert(0, network_test(options.spec_from, own))
    text = network_spec(network, name, inputs, tests, framework.name, schema)
    for operator, why in network.left_out.items():
        log.warning("%s: left out: %s", operator, why)
    if output is None:
        print_result(text)
        return DONE
    try:
        write_atomically(output, text.encode())
    except OSError as error:
        raise UsageError(f"--output {output}: cannot be written: {error.strerror}: check the path") from None
    cases = counted(len(expand_cases(load_spec(output))), "case")
    log.info("%s: %s, %s", output, counted(len(network.calls), "operator call"), cases)
    return DONE
