"""What a cause's sentence adds on primitives of libraries such as oneDNN: what differs between the sides, no share."""

from collections.abc import Sequence

from opduel.comparator.cause_leads import LEAST_NAMED, NAMED
from opduel.comparator.cause_wording import is_renamed, short_name
from opduel.records import Comparison
from opduel.records.cause import Candidate, Examination


def other_primitives(comparison: Comparison, chosen: Examination, examinations: Sequence[Examination]) -> str:
    """``; of its primitives, the convolution's jit:avx2 became ref:any``: those that run by another implementation, or
    on one side alone, where another source has the sentence. Else ``; oneDNN 1.7.0 -> 2.4.4``, where their library is
    of another release."""
    if chosen.source == "primitives":
        return "".join(f"; {words}" for words in chosen.note.split("; ") if " -> " in words)
    logged = next((one for one in examinations if one.source == "primitives"), None)
    if logged is None or logged.control is None or logged.treatment is None:
        return ""
    if not _matter(comparison, logged.control, logged.treatment):
        return ""
    least = LEAST_NAMED * (min(logged.control, logged.treatment) or max(logged.control, logged.treatment))
    parts = [one for one in logged.candidates if max(one.control, one.treatment) >= least]
    said = [words for one in parts if (words := _otherwise(one))]
    more = f" and {len(said) - NAMED} more" if len(said) > NAMED else ""
    return f"; of its primitives, {', '.join(said[:NAMED])}{more}" if said else ""


def _matter(comparison: Comparison, control: float, treatment: float) -> bool:
    """Whether a side's primitives, in ns, are worth words where the other side has none: from a tenth of its call on,
    as far as its time is known."""
    if control and treatment:
        return True
    seen, call = (treatment, comparison.treatment) if treatment else (control, comparison.control)
    return seen > 0 and (comparison.measure.unit != "ns" or seen >= LEAST_NAMED * (call or 0.0))


def _otherwise(part: Candidate) -> str:
    """What is another primitive on the treatment than on the control; empty for the same."""
    before, after = part.implementations
    if part.control == 0 or part.treatment == 0:
        return f"{short_name(part.name)} is {'new' if part.control == 0 else 'gone'}"
    if is_renamed(part) and part.name.startswith("reorder"):
        return f"{short_name(part.was)} became {short_name(part.name)}"
    return f"{short_name(part.name)}'s {short_name(before)} became {short_name(after)}" if before != after else ""
