"""What a cause's sentence adds on primitives of libraries such as oneDNN: what differs, without a share."""

from collections.abc import Sequence

from opduel.causes.attribution.shares import find_examination
from opduel.causes.function_names import short_name
from opduel.causes.wording.leads import LEAST_NAMED, NAMED
from opduel.causes.wording.phrases import is_renamed
from opduel.records import Comparison
from opduel.records.cause import Candidate, Examination


def other_primitives(comparison: Comparison, chosen: Examination, examinations: Sequence[Examination]) -> str:
    """Return ``; of its primitives, the convolution's jit:avx2 became ref:any``: those with another implementation, or
    on one side alone. If the sentence itself is about primitives, return ``; oneDNN 1.7.0 -> 2.4.4`` if their library
    is of another release."""
    if chosen.source == "primitives":
        return "".join(f"; {words}" for words in chosen.note.split("; ") if " -> " in words)
    logged = find_examination(examinations, "primitives")
    if logged is None or logged.control is None or logged.treatment is None:
        return ""
    if not _matter(comparison, logged.control, logged.treatment):
        return ""
    least = LEAST_NAMED * (min(logged.control, logged.treatment) or max(logged.control, logged.treatment))
    parts = [candidate for candidate in logged.candidates if max(candidate.control, candidate.treatment) >= least]
    changes = [words for candidate in parts if (words := _otherwise(candidate))]
    more = f" and {len(changes) - NAMED} more" if len(changes) > NAMED else ""
    return f"; of its primitives, {', '.join(changes[:NAMED])}{more}" if changes else ""


def _matter(comparison: Comparison, control: float, treatment: float) -> bool:
    """Return whether primitives are worth words: if only one side has any, they must take a tenth of its call, as far
    as its time is known. ``control`` and ``treatment``: ns per call."""
    if control and treatment:
        return True
    primitives_ns, call_ns = (treatment, comparison.treatment) if treatment else (control, comparison.control)
    return primitives_ns > 0 and (comparison.measure.unit != "ns" or primitives_ns >= LEAST_NAMED * (call_ns or 0.0))


def _otherwise(part: Candidate) -> str:
    before, after = part.implementations
    if part.control == 0 or part.treatment == 0:
        return f"{short_name(part.name)} is {'new' if part.control == 0 else 'gone'}"
    if is_renamed(part) and part.name.startswith("reorder"):
        return f"{short_name(part.was)} became {short_name(part.name)}"
    return f"{short_name(part.name)}'s {short_name(before)} became {short_name(after)}" if before != after else ""
