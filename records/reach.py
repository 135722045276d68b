"""What a case runs of a build's installed files."""

from dataclasses import dataclass

from opduel.records.measurement import Failure


@dataclass(frozen=True)
class Reach:
    """What a case runs, and what its process has imported by its end: of files below the build's site-packages.

    ``functions`` and ``imported`` are ``path:line``, where each function begins: those that ran in the case's setup and
    calls, and those that ran before, while modules were imported. ``modules`` are the paths of imported modules.
    ``unknown``: why that isn't known, or not all of it; ``failure`` is set if that is why the case doesn't run, in the
    build's words.
    """

    functions: frozenset[str] = frozenset()
    imported: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    unknown: str = ""
    failure: Failure | None = None
