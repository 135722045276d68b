"""What the verdicts on a call's time and on its instructions mean together."""

from collections.abc import Sequence
from dataclasses import replace

from opduel.records import DEFAULT_METRIC, Comparison, Verdict, case_id_for

OTHER_CAUSES = "memory, layout or vector width"

# (verdict on time, verdict on instructions) -> what both mean together; other pairs mean nothing more.
READINGS: dict[tuple[Verdict, Verdict], str] = {
    ("regressed", "regressed"): "slower, and does more",
    ("regressed", "unchanged"): f"slower with unchanged instructions: {OTHER_CAUSES}",
    ("regressed", "not_worse"): f"slower although it does no more: {OTHER_CAUSES}",
    ("regressed", "not_better"): "slower; whether it does more is open",
    ("regressed", "inconclusive"): "slower; whether it does more is open",
    ("regressed", "improved"): f"slower although it does less: {OTHER_CAUSES}",
    ("improved", "improved"): "faster, and does less",
    ("improved", "unchanged"): f"faster with unchanged instructions: {OTHER_CAUSES}",
    ("improved", "not_better"): f"faster although it does no less: {OTHER_CAUSES}",
    ("improved", "not_worse"): "faster; whether it does less is open",
    ("improved", "inconclusive"): "faster; whether it does less is open",
    ("improved", "regressed"): f"faster although it does more: {OTHER_CAUSES}",
    ("unchanged", "regressed"): "does more, but is no slower",
    ("not_worse", "regressed"): "does more, but is no slower",
    ("not_better", "regressed"): "does more; whether it is slower is open",
    ("inconclusive", "regressed"): "does more; whether it is slower is open",
    ("unchanged", "improved"): "does less, but is no faster",
    ("not_better", "improved"): "does less, but is no faster",
    ("not_worse", "improved"): "does less; whether it is faster is open",
    ("inconclusive", "improved"): "does less; whether it is faster is open",
    ("inconclusive", "unchanged"): "instructions are unchanged",
}


def attribution_note(time: Comparison, instructions: Comparison) -> str:
    """Return what the comparisons of one call's time and instructions mean together; empty where they add nothing.

    "Does more" and "does less" are about instructions, with the change of their number in brackets.
    """
    words = READINGS.get((time.verdict, instructions.verdict), "")
    if not words or instructions.ratio is None:
        return words
    return f"{words} ({instructions.ratio - 1:+.1%} instructions)"


def attribute_changes(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons in their order, with what time and instructions mean together in the note on time."""
    comparison_by_case = {comparison.case: comparison for comparison in comparisons}
    attributed = []
    for comparison in comparisons:
        is_time = comparison.metric == DEFAULT_METRIC
        instructions = comparison_by_case.get(case_id_for("instructions", comparison.case)) if is_time else None
        words = attribution_note(comparison, instructions) if instructions else ""
        note = "; ".join(filter(None, (comparison.note, words)))
        attributed.append(replace(comparison, note=note) if words else comparison)
    return attributed
