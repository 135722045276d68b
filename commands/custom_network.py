"""--network: a spec of one network, and perhaps of the operator calls that it makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opduel.commands.builds import usual_build
from opduel.commands.config import config_path, read_config
from opduel.commands.entry import log
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.option_rules import refuse_options
from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.catalogue.network import Input, ask_network, network_test, operator_tests
from opduel.driver.catalogue.rules import load_rules
from opduel.frameworks import Framework, framework_names, get_framework
from opduel.harness.specs import Spec, validate
from opduel.records import UsageError


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
    for operator, why in network.left_out.items():
        log.warning("%s: left out: %s", operator, why)
    return operator_tests(network, network_name, load_rules(framework))


def _tensor(value: Any) -> Input | None:
    """An input that is a tensor: a shape, or an object with one; None for an argument of a constructor."""
    if isinstance(value, list) and value and all(isinstance(size, int) for size in value):
        return Input(value)
    if isinstance(value, dict) and isinstance(value.get("shape"), list):
        return Input(value["shape"], value.get("dtype", "float32"))
    return None
