"""The records that flow between packages: frozen dataclasses, which read and write themselves as JSON.

They compute only what follows from their own fields (``work.py``: rates and roofline), and do no I/O.

``Build pair -> Case -> Round -> Comparison -> Report``.  Every package may import this one, which imports ``support``.
"""

from opduel.records.build import Build, Commit
from opduel.records.case import (
    DEFAULT_METRIC,
    DEFAULT_MODE,
    METRICS,
    MODES,
    NOISY,
    SAMPLED,
    VALUE,
    Case,
    Direction,
    Metric,
    ModelFile,
    Tolerance,
    case_id_for,
    split_kind,
    without_kind,
)
from opduel.records.cause import Candidate, Cause, Examination, Frame, Observation, Part, Source
from opduel.records.configuration import USUAL_ROUNDS, RunConfiguration, rounds_at, usual_rounds
from opduel.records.host_record import HostRecord
from opduel.records.measurement import Failure, Incident, PairSample, Stage
from opduel.records.report import (
    CLAIMS,
    FLAGGED,
    ONE_SIDED,
    SCHEMA_VERSION,
    WORSE,
    Breakdown,
    Comparison,
    Effort,
    Forecast,
    OperatorTime,
    Report,
    TwoModes,
    Verdict,
    Verification,
    verdict_words,
)
from opduel.records.run_record import RunLabels, RunRecord
from opduel.records.work import Achieved, Work, achieved, roof
from opduel.support.errors import BrokenBuildError, NoSpaceError, OpduelError, RunError, UsageError, disk_error, is_full
