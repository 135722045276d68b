"""Networks that the command line names: the spec of one with --network, and the one that spec-from writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opduel.commands.builds import usual_build
from opduel.commands.config import config_path, read_config
from opduel.commands.entry import DONE, log
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.option_rules import refuse_options
from opduel.commands.overwrite_check import refuse_overwriting
from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.catalogue.network import Input, Network, ask_network, network_spec, network_test, operator_tests
from opduel.driver.catalogue.rules import load_rules
from opduel.driver.documents import write_text
from opduel.frameworks import Framework, framework_names, get_framework
from opduel.frameworks.base import SPECIFICATIONS
from opduel.harness.specs import Spec, expand_cases, load_spec, validate
from opduel.harness.specs.schema import SCHEMA_FILE
from opduel.records import UsageError
from opduel.reporters.stream import print_result
from opduel.support.atomic import check_file
from opduel.support.text import counted


@dataclass(frozen=True)
class CustomNetwork:
    """A network from the command line, as a spec; ``name`` is for reports."""

    name: str
    spec: Spec


def custom_network(options: HarnessOptions, inputs: Sequence[Mapping[str, Any]]) -> CustomNetwork | None:
    """The network that the options name, on the ``inputs`` that were given; None if they name none.

    With ``--with_operators`` a build is asked for its operators: the treatment, or else the control. OpduelError:
    options that don't go together, no such network, inputs that it doesn't take, no build to ask.
    """
    if options.network is None:
        refuse_options(options, "no network")
        return None
    refuse_options(options, "a network")
    if len(inputs) != 1:
        raise UsageError(
            "--network: add --inputs once, with the shape of each of its inputs, such as '{\"data\": [1, 3, 224, 224]}'"
        )
    framework = _framework(options)
    test = network_test(options.network, inputs[0])
    tests = [test]
    if options.with_operators:
        tests += _operators(options, options.network, framework, inputs[0])
    if "params" not in test.get("files", ()) and "symbol" in test.get("files", ()):
        log.info("--network: no parameters beside %s: weights are drawn from the seed", options.network)
    try:
        return CustomNetwork(test["identifier"], validate({"framework": framework.name, "tests": tests}))
    except UsageError as error:
        raise UsageError(f"--network {options.network}: {str(error).replace('tests[0].', '', 1)}") from None


def _framework(options: HarnessOptions) -> Framework:
    names = [options.framework] if options.framework else framework_names()
    frameworks = [framework for framework in map(get_framework, names) if framework.cases.networks]
    if not frameworks:
        raise UsageError(f"--network: {options.framework} has no networks: leave --framework out")
    return frameworks[0]


def _operators(
    options: HarnessOptions, network_name: str, framework: Framework, inputs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the tests of the network's operator calls."""
    request = options.treatment or options.control
    request = request or usual_build("treatment", read_config(config_path()), framework)
    build = resolve_build(request, framework, BuildCache(options.exec_dir))
    tensors = {name: tensor for name, value in inputs.items() if (tensor := _tensor(value)) is not None}
    values = {name: value for name, value in inputs.items() if name not in ("hybridize", "loss")}
    network = ask_network(build, framework, network_name, tensors, values)
    _warn_of_operators(network)
    return operator_tests(network, network_name, load_rules(framework))


def _tensor(value: Any) -> Input | None:
    """An input that is a tensor: a shape, or an object with one; None for an argument of a constructor."""
    if isinstance(value, list) and value and all(isinstance(size, int) for size in value):
        return Input(value)
    if isinstance(value, dict) and isinstance(value.get("shape"), list):
        return Input(value["shape"], value.get("dtype", "float32"))
    return None


def write_spec_from(
    spec_from: str,
    shape: Sequence[tuple[str, Sequence[int], str]],
    with_network: bool,
    build: str | None,
    output: Path | None,
    framework: str,
    exec_dir: Path | None,
) -> int:
    """Ask the build for a network's operator calls, and write the spec; ``shape`` has name, sizes and dtype of each
    input. Return the exit code, or raise an OpduelError that has it."""
    network_framework = get_framework(framework)
    inputs = {name: Input(list(sizes), dtype) for name, sizes, dtype in shape}
    if len(inputs) < len(shape):
        raise UsageError("--shape: one input is given twice: keep one")
    if output and output.suffix != ".json":
        raise UsageError(f"--output {output}: the name of a spec must end in .json")
    if output:
        check_file(output, "output")
        refuse_overwriting({"--spec_from": [Path(spec_from)]}, "--output", [output])
    request = build or usual_build("treatment", read_config(config_path()), network_framework, "build")
    resolved = resolve_build(request, network_framework, BuildCache(exec_dir))
    network = ask_network(resolved, network_framework, spec_from, inputs)
    schema = f"./{SCHEMA_FILE.name}" if output and output.absolute().parent == SPECIFICATIONS else None
    name = Path(spec_from).name
    tests = operator_tests(network, name, load_rules(network_framework))
    if with_network:
        own = {key: value.shape if value.dtype == "float32" else vars(value) for key, value in inputs.items()}
        tests.insert(0, network_test(spec_from, own))
    text = network_spec(network, name, inputs, tests, framework, schema)
    _warn_of_operators(network)
    if output is None:
        print_result(text)
        return DONE
    write_text(output, text)
    cases = counted(len(expand_cases(load_spec(output))), "case")
    log.info("%s: %s, %s", output, counted(len(network.calls), "operator call"), cases)
    return DONE


def _warn_of_operators(network: Network) -> None:
    for operator, why in network.left_out.items():
        log.warning("%s: left out: %s", operator, why)
