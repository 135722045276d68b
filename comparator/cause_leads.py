"""Which candidates of an examination are named: those that changed in the direction of the whole, or that make up for
others."""

from dataclasses import replace

from opduel.comparator.cause_wording import is_of_the_interpreter, listed
from opduel.comparator.causes import is_named
from opduel.records.cause import Candidate, Examination

PARTLY = 0.5  # share of the case's change below which it is explained partly
LEAST_REACH = 0.1  # a source that accounts for a smaller share of the case's change explains nothing
NAMED = 3  # candidates in the sentence
LEAST_NAMED = 0.1  # share of each after the first
EXCHANGED = 1.2  # sum of the shares of one direction from which on parts of both are named
ENOUGH = 0.8  # shares that are enough together
OFTEN = 0.1  # by which a function is called more often, or less, to be named for that alone
OFTEN_SHARE = 0.25  # of the change that it seems to have, then
NATIVE = ("native functions", "sampled functions")  # sources


def change_of(examination: Examination) -> float | None:
    """The whole difference as a share of the control; None where there is none, or it has no control."""
    if examination.treatment is None or not examination.control or examination.control <= 0:
        return None
    return examination.treatment / examination.control - 1


def of_libraries(examination: Examination) -> Examination:
    """The same without native functions of Python's own interpreter: what they execute follows from the Python code
    that they run, and explains nothing."""
    if examination.source not in NATIVE or examination.explained is None:
        return examination
    candidates = tuple(one for one in examination.candidates if not is_of_the_interpreter(one))
    return replace(
        examination, candidates=candidates, explained=sum(one.share or 0.0 for one in candidates if is_named(one))
    )


def leads_of(examination: Examination) -> list[Candidate]:
    """The candidates to name, the largest share first: those that changed in the direction of the whole. Where they
    are enough, only those that came or went are named beside them: they are what to look for in the code."""
    named = sorted((one for one in examination.candidates if is_named(one) and (one.share or 0) > 0), key=by_share)
    found: list[Candidate] = []
    for one in named[:NAMED]:
        enough = sum(lead.share or 0 for lead in found) >= ENOUGH
        if not found or ((one.share or 0) >= LEAST_NAMED and not (enough and one.control and one.treatment)):
            found.append(one)
    return found


def called_otherwise(examination: Examination) -> Candidate | None:
    """Of Python functions none of which has a clear share, the one with the largest that is called more often where
    time grew, or less often where it fell. How time divides between a short function and its callers is doubtful; how
    often it is called is not."""
    own = change_of(examination)
    if examination.source != "Python functions" or own is None or examination.explained is None:
        return None
    if leads_of(examination):
        return None
    for one in sorted(examination.candidates, key=by_share):
        before, after = one.calls
        if before and after and not one.was and (one.share or 0.0) >= OFTEN_SHARE:
            often = after / before - 1
            if abs(often) >= OFTEN and (often > 0) == (own > 0) == (one.difference > 0):
                return one
    return None


def by_share(candidate: Candidate) -> tuple[float, str]:
    return -(candidate.share or 0.0), candidate.name


def exchanged(examination: Examination, added: str) -> str:
    """``f and 2 more gave way to g: together 98 % of the added instructions``, where parts that changed one way make up
    for others; empty elsewhere."""
    named = sorted(filter(is_named, examination.candidates), key=by_share)
    more, less = ([one for one in named if (one.difference > 0) == way] for way in (True, False))
    if not less or not more or sum(max(0.0, one.share or 0.0) for one in named) <= EXCHANGED:
        return ""
    net = sum(one.share or 0.0 for one in named)
    more, less = (sorted(group, key=lambda one: (-abs(one.difference), one.name)) for group in (more, less))
    if all(one.control == 0 for one in more) and all(one.treatment == 0 for one in less):
        words = f"{listed(less)} gave way to {listed(more)}"
    else:
        words = f"less in {listed(less)}, more in {listed(more)}"
    return f"{words}: together {100 * net:.0f} % {added}"
