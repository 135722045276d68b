"""A case: one operator, one set of inputs, dtype, context and direction, measured by one metric."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Direction = Literal["forward", "backward", "both"]


@dataclass(frozen=True)
class Metric:
    """What a number means: its unit and which way is better."""

    name: str
    unit: str
    lower_is_better: bool


METRICS: Mapping[str, Metric] = {"time": Metric("time", "ns", lower_is_better=True)}


@dataclass(frozen=True)
class Case:
    """One thing to measure on both sides; ``id`` is stable, readable and unique within a run.

    ``inputs`` is plain JSON data keyed by the operator's own argument names; the framework's adaptor in the
    worker turns it into tensors.  ``threshold`` is a share (0.02 for 2 %), ``timeout_s`` bounds one request.
    """

    id: str
    operator: str
    direction: Direction
    inputs: Mapping[str, Any]
    dtype: str
    context: str
    threshold: float
    timeout_s: float
    metric: str = "time"
