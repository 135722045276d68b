"""docs/coverage.md: which operators of a build have cases that run, which have not, and why."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from driver.catalogue import Registry
from harness.trial import Attempt

PEER_SOURCE = "opperf.json beside the rules; its script says how it was made from opperf itself"
PEER_NAMESPACE = "nd."  # the only one that opperf measures


@dataclass(frozen=True)
class BuildCoverage:
    """What was tried on one build."""

    request: str
    registry: Registry
    attempts: Sequence[Attempt]
    left_out: Mapping[str, str]  # function or registered operator -> reason

    def operators(self, direction: str) -> set[str]:
        """Functions with at least one case in this direction that ran."""
        return {one.case.operator for one in self.attempts if one.case.direction == direction and one.reason is None}

    def registered(self, direction: str, namespace: str = "") -> set[str]:
        """The registered operators behind them, by their own names; only those called through ``namespace``."""
        functions = self.registry.functions
        return {
            own
            for name in self.operators(direction)
            if name in functions and name.startswith(namespace) and (own := functions[name].registered)
        }


def coverage_text(builds: Sequence[BuildCoverage], categories: Sequence[str], peer: Mapping[str, bool]) -> str:
    """The document. The first build is told of in full, the others in what differs."""
    first = builds[0]
    requests = " ".join(build.request for build in builds)
    parts = [
        "# What the catalogue covers",
        f"Written by `.venv/bin/python -m commands.catalogue coverage {requests} --write`: every case of `-b all` was "
        "called\na few times, forward or backward, in a process of its own.",
        _totals(builds),
        *(_against_peer(first, peer) if peer else ()),
        f"## Cases that failed\n\n{_failures(builds)}",
        f"## Functions that the rules name and that have no case on {first.request}\n\n"
        + _by_reason(first, functions=True),
        f"## Operators that {first.request} registers and no case names\n\n" + _by_reason(first, functions=False),
    ]
    return "\n\n".join(parts) + "\n"


def _totals(builds: Sequence[BuildCoverage]) -> str:
    rows = [
        (
            build.request,
            len({one.case.operator for one in build.attempts}),
            len(build.operators("forward")),
            len(build.operators("backward")),
            len(build.registered("forward")),
            len(build.attempts),
            sum(one.reason is not None for one in build.attempts),
        )
        for build in builds
    ]
    head = ("build", "functions", "ran forward", "ran backward", "registered operators behind them", "cases", "failed")
    note = "\n\nRegistered operators are counted once, whatever their aliases; NumPy's front end calls some of `nd`'s."
    return _table(head, rows) + note


def _against_peer(build: BuildCoverage, peer: Mapping[str, bool]) -> Iterable[str]:
    """How many of the operators that opperf measures ran here, and which didn't."""
    ran = {
        direction: build.registered(direction, PEER_NAMESPACE) | build.operators(direction)
        for direction in ("forward", "backward")
    }

    def missing(direction: str, names: Iterable[str]) -> list[str]:
        return sorted(
            name
            for name in names
            if build.registry.own_name(name) not in ran[direction] and PEER_NAMESPACE + name not in ran[direction]
        )

    backward = [name for name, measured in peer.items() if measured]
    absent, absent_backward = missing("forward", peer), missing("backward", backward)
    distinct = {build.registry.own_name(name) for name in peer}
    yield (
        "## Beside opperf\n\n"
        f"opperf 1.9.1 calls {len(peer)} names, which are {len(distinct)} registered operators "
        f"({PEER_SOURCE}),\n{len(backward)} of "
        "them backward, too. All of them are in `nd`, and only functions of `nd` are held against them."
    )
    yield _table(
        ("", "opperf", "of these here", "here in all"),
        [
            ("names, forward", len(peer), len(peer) - len(absent), len(build.operators("forward"))),
            ("names, backward", len(backward), len(backward) - len(absent_backward), len(build.operators("backward"))),
            ("registered operators, forward", len(distinct), "", len(build.registered("forward"))),
        ],
    )
    yield (
        "Not run forward here: "
        + (", ".join(absent) or "none")
        + ".\n\nNot run backward here: "
        + (", ".join(absent_backward) or "none")
        + "."
    )


def _failures(builds: Sequence[BuildCoverage]) -> str:
    rows = [
        (build.request, one.case.id, one.reason.replace("|", "\\|"))
        for build in builds
        for one in build.attempts
        if one.reason is not None
    ]
    return _table(("build", "case", "reason"), rows) if rows else "None."


def _by_reason(build: BuildCoverage, *, functions: bool) -> str:
    names: dict[str, list[str]] = defaultdict(list)
    for name, reason in build.left_out.items():
        if ("." in name) == functions:
            names[reason].append(f"`{name}`")
    rows = [(reason, len(found), ", ".join(sorted(found))) for reason, found in sorted(names.items())]
    return _table(("reason", "count", "names"), rows) if rows else "None."


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
