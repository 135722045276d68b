"""Candidates of a cause in words: names that people can read, how often they run, and their shares."""

from collections.abc import Sequence

from opduel.causes.function_names import short_name
from opduel.records.cause import ONE_BY_ONE, VECTORS, Candidate, without_clone
from opduel.support.text import counted

NOUNS = {"ns": "time", "instructions": "instructions", "bytes": "memory"}  # by unit


def of_the_change(noun: str, grew: bool) -> str:
    """Return ``of the added time``, or ``of the time saved``."""
    return f"of the {f'added {noun}' if grew else f'{noun} saved'}"


def listed(parts: Sequence[Candidate]) -> str:
    """Return ``f and 2 more``."""
    more = len(parts) - 1
    return short_name(parts[0].name) + (f" and {more} more" if more else "")


def claims(leads: Sequence[Candidate], added: str) -> str:
    """Return ``2 calls of f per call, new (file:12), account for 96 % [93, 99] of the added time``; of several leads
    ``f: 60 % [55, 65] of the added time, g: 30 % [25, 35]``."""
    if len(leads) == 1:
        lead = leads[0]
        if is_renamed(lead):
            return f"{described(lead).rstrip(',')}: {share_of(lead)} {added}".rstrip()
        calls = _calls_of(lead)[0]
        is_plural = described(lead)[:1].isdigit() and calls is not None and f"{calls:.3g}" != "1"
        return f"{described(lead)} account{'' if is_plural else 's'} for {share_of(lead)} {added}".rstrip()
    return ", ".join(
        f"{described(lead).rstrip(',')}: {share_of(lead)}{' ' + added if added and not at else ''}"
        for at, lead in enumerate(leads)
    )


def _calls_of(candidate: Candidate) -> tuple[float | None, str]:
    """Return how often the only side that has a part calls it, and its fate; (None, "") if both sides have it."""
    if candidate.control == 0 and not candidate.was:
        return candidate.calls[1], "new"
    if candidate.treatment == 0 and not candidate.was:
        return candidate.calls[0], "gone"
    return None, ""


def is_renamed(candidate: Candidate) -> bool:
    """Return whether a part has another name on the control, beyond the suffix of a clone or another module."""
    before, after = (without_clone(name).rpartition(".")[2] for name in (candidate.was, candidate.name))
    return bool(candidate.was) and before != after


def described(candidate: Candidate) -> str:
    """Return ``2 calls of f per call, new (file:12),``: what is known of a candidate besides its share."""
    name, where = short_name(candidate.name), f" ({short_name(candidate.where)})" if candidate.where else ""
    if candidate.merged:
        more = f" and {len(candidate.merged) - 1} more" if len(candidate.merged) > 1 else ""
        name += f" with {short_name(candidate.merged[0])}{more}, inlined or split,"
    if is_renamed(candidate):
        return f"{short_name(candidate.was)} became {name}{where}"
    calls, fate = _calls_of(candidate)
    before, after = ("" if is_of_vectors(name) else name for name in candidate.implementations)
    if before and after and before != after:
        return f"{name}, whose {short_name(before)} became {short_name(after)},"
    place = short_name(candidate.where or after or before)
    place = ", ".join(filter(None, (place, candidate.caller and f"called by {short_name(candidate.caller)}")))
    where = f" ({place})" if place else ""
    if fate:
        often = f"{_counted_calls(calls)} of {name} per call" if calls else name
        return f"{often}, {fate}{where},"
    often_before, often_after = candidate.calls
    if often_before and often_after and abs(often_after / often_before - 1) >= 0.01:
        return f"{name}{where}, {_counted_calls(often_after)} per call where it was {often_before:.3g},"
    return f"{name}{where}"


def is_of_vectors(implementation: str) -> bool:
    """Return whether it says what a native function works on, and not which of a library's implementations ran."""
    return implementation == ONE_BY_ONE or implementation.startswith(VECTORS)


def _counted_calls(calls: float) -> str:
    return counted(round(calls), "call") if calls == round(calls) else f"{calls:.3g} calls"


def share_of(candidate: Candidate) -> str:
    """Return ``96 % [93, 99]``."""
    low, high = (round(100 * limit) for limit in candidate.ci or (0.0, 0.0))
    share = f"{100 * (candidate.share or 0.0):.0f} %"
    return share if low == high else f"{share} [{low}, {high}]"
