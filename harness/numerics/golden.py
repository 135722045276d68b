"""Golden outputs: what a build computes on a set of cases, kept in a folder, for other builds to be compared with.

The folder holds ``golden.json`` (which build, which seed, and for each case its inputs, the arrays and their file), and
a numpy .npz file for each case. The manifest is written last: a folder without it was not completed.
"""

import json
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from opduel.frameworks import recorded_environment, run_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.machine.host import host_fingerprint
from opduel.harness.numerics.outputs import (
    ARRAY_FIELDS,
    Answer,
    Array,
    ArrayInfo,
    ask_results,
    elements,
)
from opduel.harness.other_runs.single import SingleRequest
from opduel.harness.planning.budget import NO_TIME_LEFT
from opduel.harness.processes.case_request import DESCRIBED
from opduel.harness.processes.forking import with_checked_forks
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import Build, Case, Failure, RunError, UsageError
from opduel.support.atomic import write_atomically
from opduel.support.digests import file_digest
from opduel.support.files import MissingError, UnreadableError, parse_json, read_bytes
from opduel.support.validation import check_version, explain

MANIFEST = "golden.json"
KIND, SCHEMA_VERSION = "opduel golden outputs", 3
MOST_MANIFEST_BYTES = 256 << 20
_FIX = "give a folder that --golden wrote"


@dataclass(frozen=True)
class GoldenCase:
    """What was computed for one case.

    ``determinants`` is all that decides what is computed; ``inputs`` the SHA-256 of the inputs' values, empty where the
    framework's adaptor has none. ``file`` is relative to the folder, ``sha256`` its checksum. ``failure``: why there
    are no outputs.
    """

    determinants: Mapping[str, Any]
    inputs: str = ""
    arrays: Sequence[ArrayInfo] = ()
    file: str = ""
    sha256: str = ""
    failure: Failure | None = None


@dataclass(frozen=True)
class Manifest:
    """``golden.json``, and without ``kind``. ``cases`` are by the id of the case that measures the same by time."""

    schema_version: int
    framework: str
    seed: int
    threads: int
    created: str
    complete: bool
    build: Build
    cases: Mapping[str, GoldenCase] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)  # the user's variables, secrets masked


_ADAPTER: TypeAdapter[Manifest] = TypeAdapter(Manifest)


def check_new(folder: Path) -> None:
    """See that nothing would be lost if golden outputs were written there. Raises UsageError: it holds something, or is
    a file."""
    try:
        if any(folder.iterdir()):
            contents = "golden outputs" if (folder / MANIFEST).exists() else "other files"
            raise UsageError(
                f"--golden {folder}: holds {contents}: name a new folder, or add --metric error to compare"
            )
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UsageError(f"--golden {folder}: {error.strerror}: name a new folder") from None


def write_golden(
    request: SingleRequest, folder: Path, on_case: Callable[[int], None] = lambda _: None
) -> Mapping[str, GoldenCase]:
    """Compute every case, in fresh processes, and keep what came of it; ``on_case`` hears how many are done.

    What ends it early (a signal, the time budget, workers that can't be started) leaves what was computed, with a
    manifest that says ``complete``: false. Returns the cases that were computed, by id. Raises UsageError: the folder
    holds something; fewer processors than threads; as ``run_environment``. RunError: nothing could be computed, or the
    folder can't be written. KeyboardInterrupt: a signal; what was computed is kept.
    """
    check_new(folder)
    threads, time_budget = request.configuration.threads, request.configuration.time_budget
    golden_cases: dict[str, GoldenCase] = {}
    environment = {
        **run_environment(request.framework, threads, request.env, [request.build]),
        **request.framework.preparation(request.cases),
    }
    adaptor = request.framework.adaptor
    bench = Bench({"treatment": request.build}, adaptor, environment, plan_cpus(threads))
    framework = with_checked_forks(request.framework, bench, request.cases, threads)
    request = replace(request, framework=framework)
    try:
        (folder / "outputs").mkdir(parents=True)
        with ExitStack() as stack:
            stack.callback(_write_manifest, request, folder, golden_cases)
            worker = stack.enter_context(bench.worker("treatment", environment, bench.cpus.start))
            deadline = math.inf if time_budget is None else time.monotonic() + time_budget
            for case in request.cases:
                golden_case = _store_outputs(
                    request, case, worker, folder, f"outputs/{len(golden_cases):05d}.npz", deadline
                )
                if golden_case is None:
                    break
                golden_cases[case.time_id] = golden_case
                on_case(len(golden_cases))
    except OSError as error:
        raise RunError(f"--golden {folder}: can't be written: {error.strerror}") from None
    failures = [golden_case.failure for golden_case in golden_cases.values() if golden_case.failure is not None]
    if len(failures) == len(golden_cases):
        raise RunError(f"no outputs could be computed: {failures[0].reason if failures else NO_TIME_LEFT}")
    return golden_cases


def _store_outputs(
    request: SingleRequest, case: Case, worker: RestartingWorker, folder: Path, file: str, deadline: float
) -> GoldenCase | None:
    """Compute a case's outputs, and write them to ``file`` in ``folder``; None when the time was up before they were
    computed."""
    fork = request.framework.can_fork(request.configuration.threads, case.context)
    determinants = determinants_of(case)
    with tempfile.TemporaryDirectory(prefix="opduel-outputs-") as parent:
        answer = ask_results(worker, case, request.seed, Path(parent) / "arrays", fork, deadline, digest=True)
        arrays = answer.results
        if isinstance(arrays, Failure):
            return None if time.monotonic() >= deadline else GoldenCase(determinants, failure=arrays)
        np.savez(folder / file, *(elements(array).reshape(-1) for array in arrays))
    return GoldenCase(
        determinants,
        inputs=answer.inputs,
        arrays=[ArrayInfo(**{name: vars(array)[name] for name in ARRAY_FIELDS}) for array in arrays],
        file=file,
        sha256=file_digest(folder / file),
    )


def _write_manifest(request: SingleRequest, folder: Path, golden_cases: Mapping[str, GoldenCase]) -> None:
    """Say what the outputs are of; where there are none, leave nothing behind."""
    if all(golden_case.failure is not None for golden_case in golden_cases.values()):
        shutil.rmtree(folder / "outputs")
        return
    host = host_fingerprint()
    manifest = Manifest(
        SCHEMA_VERSION,
        request.framework.name,
        request.seed,
        request.configuration.threads,
        datetime.now(UTC).isoformat(timespec="seconds"),
        len(golden_cases) == len(request.cases),
        request.build,
        golden_cases,
        {name: getattr(host, name) for name in ("cpu_model", "kernel", "machine")},
        recorded_environment(request.env, request.env, request.framework.name),
    )
    text = json.dumps({"kind": KIND, **asdict(manifest)}, indent=1, allow_nan=False, default=str)
    write_atomically(folder / MANIFEST, f"{text}\n".encode())


def determinants_of(case: Case) -> dict[str, Any]:
    """Return all of a case that decides what is computed, as plain JSON data; files by their checksums."""
    determinants = {name: getattr(case, name) for name in DESCRIBED}
    determinants["files"] = {name: file.sha256 or file.md5 for name, file in case.files.items()}
    return dict(json.loads(json.dumps(determinants)))


@dataclass(frozen=True)
class Golden:
    """Golden outputs that were read, which may stand in for a control."""

    folder: Path
    manifest: Manifest

    def check(self, cases: Sequence[Case]) -> None:
        """See that there are outputs of each of these cases, for these inputs, in files that are as they were written.
        Raises UsageError: there are not; names the case and what differs."""
        if missing := [case.time_id for case in cases if case.time_id not in self.manifest.cases]:
            more = f" and {len(missing) - 1} other cases" if len(missing) > 1 else ""
            why = "" if self.manifest.complete else ", and was not completed"
            raise UsageError(
                f"--golden {self.folder}: has no outputs of {missing[0]}{more}{why}: choose cases that it has "
                f"({', '.join(list(self.manifest.cases)[:3])}, ...), or write it again"
            )
        for case in cases:
            stored, current = self.manifest.cases[case.time_id].determinants, determinants_of(case)
            if unlike := [name for name in current if stored.get(name) != current[name]]:
                fix = "measure the spec that it was written with, or write it again"
                raise UsageError(f"--golden {self.folder}: {case.time_id}: {', '.join(unlike)} differed there: {fix}")
            self._check_file(self.manifest.cases[case.time_id])

    def answer(self, case: Case, folder: Path) -> Answer:
        """Return what was computed of the case, which was checked, the elements in files of ``folder``, which is made;
        or why there is nothing."""
        golden_case = self.manifest.cases[case.time_id]
        if golden_case.failure is not None:
            return Answer(replace(golden_case.failure, side="control"), golden_case.inputs)
        folder.mkdir()
        outputs = []
        with np.load(self.folder / golden_case.file, allow_pickle=False) as arrays:
            for place, description in enumerate(golden_case.arrays):
                arrays[f"arr_{place}"].tofile(folder / f"{place}.bin")
                outputs.append(Array(**vars(description), file=str(folder / f"{place}.bin")))
        return Answer(outputs, golden_case.inputs)

    def _check_file(self, golden_case: GoldenCase) -> None:
        """Raise UsageError: the file can't be read, or is not the one that was written."""
        if golden_case.failure is not None:
            return
        try:
            is_intact = file_digest(self.folder / golden_case.file) == golden_case.sha256
            why = "" if is_intact else "is not the file that was written (its checksum differs)"
        except OSError as error:
            why = f"cannot be read ({error.strerror})"
        if why:
            raise UsageError(f"--golden {self.folder}: {golden_case.file}: {why}: {_FIX}")


def read_golden(folder: Path) -> Golden:
    """Read the golden outputs in a folder; the arrays are read when they are compared. Raises UsageError: there are
    none, or they have another schema version."""
    where = f"--golden {folder}: {MANIFEST}"
    try:
        document = parse_json(read_bytes(folder / MANIFEST, MOST_MANIFEST_BYTES, pipes=False))
    except UnreadableError as error:
        why = "does not exist" if isinstance(error, MissingError) else error
        raise UsageError(f"{where}: {why}: {_FIX}") from None
    if not isinstance(document, dict) or document.pop("kind", None) != KIND:
        raise UsageError(f"{where}: kind: is not {KIND!r}: {_FIX}")
    check_version(where, document, SCHEMA_VERSION, _FIX)
    try:
        manifest = _ADAPTER.validate_python(document)
    except ValidationError as error:
        raise UsageError(f"{where}: {explain(error)}: {_FIX}") from None
    for id, golden_case in manifest.cases.items():
        place = Path(golden_case.file)
        if golden_case.failure is None and (not golden_case.file or place.is_absolute() or ".." in place.parts):
            raise UsageError(f"{where}: cases.{id}.file: is {golden_case.file!r}, not a path in the folder: {_FIX}")
    return Golden(folder, manifest)
