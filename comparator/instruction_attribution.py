"""Time and instructions of one call, read together: slower because more is done, or for another reason."""

from collections.abc import Sequence
from dataclasses import replace

from opduel.records import DEFAULT_METRIC, Comparison, Verdict, case_id_for

OTHER_CAUSES = "memory, layout or vector width"

# (verdict on time, verdict on instructions) -> what both say; where the work is open or neither changed, nothing.
READINGS: dict[tuple[Verdict, Verdict], str] = {
    ("regressed", "regressed"): "slower, and does more",
    ("regressed", "unchanged"): f"slower with unchanged instructions: {OTHER_CAUSES}",
    ("regressed", "improved"): f"slower although it does less: {OTHER_CAUSES}",
    ("improved", "improved"): "faster, and does less",
    ("improved", "unchanged"): f"faster with unchanged instructions: {OTHER_CAUSES}",
    ("improved", "regressed"): f"faster although it does more: {OTHER_CAUSES}",
    ("unchanged", "regressed"): "does more, but is no slower",
    ("unchanged", "improved"): "does less, but is no faster",
    ("inconclusive", "regressed"): "does more; whether it is slower is open",
    ("inconclusive", "unchanged"): "instructions are unchanged",
    ("inconclusive", "improved"): "does less; whether it is faster is open",
    ("regressed", "inconclusive"): "slower; whether it does more is open",
    ("improved", "inconclusive"): "faster; whether it does less is open",
}


def attribution_note(time: Comparison, instructions: Comparison) -> str:
    """What both comparisons of one call say together, in words; empty where that is nothing.

    "Does more" and "does less" are about instructions; the change of their number follows in brackets.
    """
    words = READINGS.get((time.verdict, instructions.verdict), "")
    if not words or instructions.ratio is None:
        return words
    return f"{words} ({instructions.ratio - 1:+.1%} instructions)"


def attribute_changes(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons in their order, those of time with the reading added to their note."""
    known = {one.case: one for one in comparisons}
    found = []
    for one in comparisons:
        instructions = known.get(case_id_for("instructions", one.case)) if one.metric == DEFAULT_METRIC else None
        words = attribution_note(one, instructions) if instructions else ""
        found.append(replace(one, note="; ".join(filter(None, (one.note, words)))) if words else one)
    return found
