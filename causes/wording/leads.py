"""The leads of an examination: candidates that a cause's sentence names, since they changed in the direction of the
total difference, or make up for others."""

from dataclasses import replace

from opduel.causes.attribution.shares import explained_share, is_named
from opduel.causes.function_names import is_of_the_interpreter
from opduel.causes.wording.phrases import listed
from opduel.records.cause import Candidate, Examination

PARTLY = 0.5  # share of the case's change below which it is explained partly
LEAST_REACH = 0.1  # a source that accounts for a smaller share of the case's change explains nothing
NAMED = 3  # candidates in the sentence
LEAST_NAMED = 0.1  # share of each after the first
EXCHANGED = 1.2  # sum of the shares of one direction from which on parts of both are named
ENOUGH = 0.8  # shares that are enough together
OFTEN = 0.1  # a function that is called by this share more or less often may be named for that alone,
OFTEN_SHARE = 0.25  # if its share of the change seems to be as large as this
NATIVE = ("native functions", "sampled functions")  # sources


def change_of(examination: Examination) -> float | None:
    """Return the total difference as a share of the control; None if either side's amount is unknown, or the control's
    is 0."""
    if examination.treatment is None or not examination.control or examination.control <= 0:
        return None
    return examination.treatment / examination.control - 1


def of_libraries(examination: Examination) -> Examination:
    """Return an examination of native code without the functions of Python's own interpreter: what they execute follows
    from the Python code that they run, and explains nothing."""
    if examination.source not in NATIVE or examination.explained is None:
        return examination
    candidates = tuple(
        candidate for candidate in examination.candidates if not is_of_the_interpreter(candidate.name, candidate.where)
    )
    return with_candidates(examination, candidates)


def with_candidates(examination: Examination, candidates: tuple[Candidate, ...]) -> Examination:
    """Return the examination with these candidates, and what they explain."""
    return replace(examination, candidates=candidates, explained=explained_share(candidates))


def leads_of(examination: Examination) -> list[Candidate]:
    """Return the candidates to name, the largest share first: those that changed in the direction of the total. Once
    these explain enough, further ones must have come or gone, which is what to look for in the code."""
    named = sorted(
        (candidate for candidate in examination.candidates if is_named(candidate) and (candidate.share or 0) > 0),
        key=by_share,
    )
    leads: list[Candidate] = []
    for candidate in named[:NAMED]:
        enough = sum(lead.share or 0 for lead in leads) >= ENOUGH
        if not leads or (
            (candidate.share or 0) >= LEAST_NAMED and not (enough and candidate.control and candidate.treatment)
        ):
            leads.append(candidate)
    return leads


def called_otherwise(examination: Examination) -> Candidate | None:
    """Return the Python function with the largest share that is called more often if time grew, or less often if it
    fell; None if there is none, or if some function has a clear share.

    How time divides between a short function and its callers is doubtful; how often it is called is not.
    """
    own = change_of(examination)
    if examination.source != "Python functions" or own is None or examination.explained is None:
        return None
    if leads_of(examination):
        return None
    for candidate in sorted(examination.candidates, key=by_share):
        before, after = candidate.calls
        if before and after and not candidate.was and (candidate.share or 0.0) >= OFTEN_SHARE:
            often = after / before - 1
            if abs(often) >= OFTEN and (often > 0) == (own > 0) == (candidate.difference > 0):
                return candidate
    return None


def by_share(candidate: Candidate) -> tuple[float, str]:
    """Return the sort key by which the largest share comes first."""
    return -(candidate.share or 0.0), candidate.name


def by_difference(candidate: Candidate) -> tuple[float, str]:
    """Return the sort key by which the largest difference comes first."""
    return -abs(candidate.difference), candidate.name


def exchanged(examination: Examination, added: str) -> str:
    """Return ``f and 2 more gave way to g: together 98 % of the added instructions`` if parts that changed one way make
    up for others; otherwise empty."""
    named = sorted(filter(is_named, examination.candidates), key=by_share)
    more, less = ([candidate for candidate in named if (candidate.difference > 0) == way] for way in (True, False))
    if not less or not more or sum(max(0.0, candidate.share or 0.0) for candidate in named) <= EXCHANGED:
        return ""
    net = sum(candidate.share or 0.0 for candidate in named)
    more, less = sorted(more, key=by_difference), sorted(less, key=by_difference)
    if all(candidate.control == 0 for candidate in more) and all(candidate.treatment == 0 for candidate in less):
        words = f"{listed(less)} gave way to {listed(more)}"
    else:
        words = f"less in {listed(less)}, more in {listed(more)}"
    return f"{words}: together {100 * net:.0f} % {added}"
