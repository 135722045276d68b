"""What frameworks declare by their roles, and what driver and commands do by these."""

import pytest

from opduel.commands.harness_options import HarnessOptions
from opduel.commands.programs import refuse_program_options
from opduel.driver.builds.resolve import names_build
from opduel.frameworks import get_framework
from opduel.records import UsageError


@pytest.mark.parametrize(
    ("framework", "request_text", "is_name"),
    [
        ("python", "numpy==2.2.6 scipy", True),
        ("torch", "torch==2.13.0", True),
        ("python", "/no/such/folder", False),
        ("generic", "sh", True),
        ("generic", "no-such-command", False),
        ("mxnet", "mxnet", False),
    ],
)
def test_requirements_and_commands_name_builds(framework: str, request_text: str, is_name: bool) -> None:
    assert names_build(request_text, get_framework(framework)) is is_name


@pytest.mark.parametrize(
    ("framework", "option", "words"),
    [
        ("generic", "fuzz", "--fuzz: a program has no inputs"),
        (
            "mxnet",
            "string_map",
            "--string_map: is for frameworks of programs, and the spec is for mxnet: change the spec",
        ),
    ],
)
def test_options_are_refused_that_a_frameworks_cases_can_not_have(framework: str, option: str, words: str) -> None:
    refuse_program_options(HarnessOptions(), get_framework(framework))
    with pytest.raises(UsageError, match=words):
        refuse_program_options(HarnessOptions(explicit=frozenset({option})), get_framework(framework))


def test_only_eager_frameworks_hybridize_nothing() -> None:
    torch, mxnet = get_framework("torch").cases, get_framework("mxnet").cases
    assert torch.is_block("torch.nn.Linear")
    assert not torch.can_be_hybridized("torch.nn.Linear")
    assert mxnet.can_be_hybridized("gluon.nn.Dense")
    assert mxnet.can_be_hybridized("nd.exp")
    assert not mxnet.can_be_hybridized("metric.Accuracy")
