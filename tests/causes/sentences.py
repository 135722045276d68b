"""What tests of a cause's sentence share: a change, examinations of it, and the sentence."""

from collections.abc import Mapping
from dataclasses import replace

from made_samples import a_case

from opduel.causes.attribution.shares import examine
from opduel.causes.wording.sentence import cause_of
from opduel.records import Comparison
from opduel.records.cause import Examination, Part, Source

GROWN = replace(Comparison.without_figures(a_case("add", 0.02), "regressed"), ratio=1.12, ci=(1.1, 1.14))


def examined(source: Source, unit: str, control: dict[str, Part], treatment: dict[str, Part]) -> Examination:
    """Return the examination of three process pairs that saw the same."""
    return examine(source, unit, [{"control": control, "treatment": treatment}] * 3)


def sentence(
    *examinations: Examination, comparison: Comparison = GROWN, compilers: Mapping[str, str] | None = None
) -> str:
    """Return the sentence of a change's cause."""
    cause = cause_of(comparison, examinations, compilers)
    assert cause is not None
    return cause.sentence
