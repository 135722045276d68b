"""The cases with more elements than 32 bits can number: refused by releases, and right in all but their size."""

import json
import re
from typing import Any

import pytest
from test_mxnet_dtypes import dtypes

from opduel.commands.case_selection import largest_tensor
from opduel.frameworks.base import SPECIFICATIONS
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.harness.specs.load import validate
from opduel.records import Build, Case

pytestmark = pytest.mark.mxnet
TEXT = (SPECIFICATIONS / "int64.json").read_text(encoding="utf-8")
# The spec's numbers, and small ones that are to each other as these are.
SMALLER = {2147483648: 64, 2147479552: 60, 65536: 16, 65000: 12, 32769: 9, 32000: 5, 10923: 3, 4096: 4, 2048: 8}


def cases() -> list[Case]:
    return expand_cases(load_spec(find_spec("int64")))


def smaller(text: str) -> Any:
    return json.loads(re.sub(r"\b\d{4,}\b", lambda number: str(SMALLER.get(int(number[0]), number[0])), text))


def test_a_release_refuses_every_case_before_it_allocates_anything(mxnet_1_9: Build) -> None:
    answers = dtypes(mxnet_1_9, cases())
    assert all("this build numbers at most 2147483647" in answer["error"] for answer in answers), answers
    assert all(largest_tensor(case.inputs) > 2**31 - 1 for case in cases())


def test_the_calls_are_valid_as_far_as_their_sizes_allow_to_tell(mxnet_1_9: Build) -> None:
    small = expand_cases(validate(smaller(TEXT)))
    answers = dict(zip([case.id for case in small], dtypes(mxnet_1_9, small), strict=True))
    assert [(name, answer) for name, answer in answers.items() if "outputs" not in answer] == []
    assert len(answers) >= 50
