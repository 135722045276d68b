"""run_bench.py --spec_from: the operator calls of a network, written as a spec."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opduel.commands.builds import usual_build
from opduel.commands.config import config_path, read_config
from opduel.commands.entry import DONE, log
from opduel.commands.overwrite_check import refuse_overwriting
from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.catalogue.network import Input, ask_network, network_spec, network_test, operator_tests
from opduel.driver.catalogue.rules import load_rules
from opduel.frameworks import get_framework
from opduel.frameworks.base import SPECIFICATIONS
from opduel.harness.specs import expand_cases, load_spec
from opduel.harness.specs.schema import SCHEMA_FILE
from opduel.records import UsageError
from opduel.reporters.stream import print_result
from opduel.support.atomic import check_file, write_atomically
from opduel.support.text import counted


@dataclass(frozen=True)
class SpecOptions:
    """The options of ``opduel spec-from``, and of ``run_bench.py --spec_from``."""

    spec_from: str  # a network
    shape: Sequence[tuple[str, Sequence[int], str]] = ()  # name, sizes and dtype of each input
    with_network: bool = False
    build: str | None = None
    output: Path | None = None
    framework: str = ""
    exec_dir: Path | None = None


def write_spec_from(options: SpecOptions) -> int:
    """Ask the build and write the spec; return the exit code, or raise an OpduelError that has it."""
    framework = get_framework(options.framework)
    inputs = {name: Input(list(sizes), dtype) for name, sizes, dtype in options.shape}
    if len(inputs) < len(options.shape):
        raise UsageError("--shape: one input is given twice: keep one")
    output = options.output
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
