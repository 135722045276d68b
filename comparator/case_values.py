"""The values of one case, and the predicted variance of each of its samples."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, compress
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from opduel.comparator.trimmed_mean import RESOLUTION
from opduel.records import PairSample, Stage

# Estimated variances are noisy themselves, and that must not decide how much a log ratio counts. So each sample gets so
# many extra blocks with the average noise of its case, and each case so many extra forks without noise between them
# (noise between forks that all cases have is part of ``pair_variance``).
POOLED_BLOCKS = 20.0
POOLED_FORKS = 5.0

Array = npt.NDArray[np.float64]


class ForkNoise(NamedTuple):
    """The noise of one sample by its forks; variances of log ratios.

    ``within`` is what their blocks add to the sample's variance: the forks' mean squared standard error over their
    number.  ``between`` is the variance between the forks' log ratios less that mean.  Both are 0 where they are not
    known.
    """

    forks: int
    blocks: int
    within: float
    between: float


@lru_cache(maxsize=65536)
def noise_of_forks(blocks: int, fork_ratios: tuple[tuple[float, float], ...]) -> ForkNoise:
    """Return the noise of a sample. ``fork_ratios``: each fork's log ratio and its standard error."""
    if not fork_ratios:
        return ForkNoise(1, blocks, 0.0, 0.0)
    forks = len(fork_ratios)
    centre = fmean([log_ratio for log_ratio, _ in fork_ratios])
    squares = sum((log_ratio - centre) ** 2 for log_ratio, _ in fork_ratios)
    squared_error = sum(standard_error**2 for _, standard_error in fork_ratios) / forks
    between = squares / (forks - 1) - squared_error if forks > 1 else 0.0
    return ForkNoise(forks, blocks, squared_error / forks, between)


def predict_variances(noises: Sequence[ForkNoise], pair_variance: float) -> Array:
    """Return the variance of each sample (shape (n,)): ``pair_variance`` + between / forks + within.

    The variance between forks is pooled over the case's samples. The variance within them is shrunk towards the mean
    of all blocks.
    """
    forks, blocks, within, between = np.array(noises, dtype=np.float64).T
    freedom = forks - 1
    of_fork = max(0.0, float(freedom @ between / (freedom.sum() + POOLED_FORKS)))
    blocks = np.maximum(blocks, 1.0)
    of_blocks = within * blocks
    mean = float(blocks @ of_blocks / blocks.sum())
    of_blocks = (blocks * of_blocks + POOLED_BLOCKS * mean) / (blocks + POOLED_BLOCKS)
    predicted: Array = np.maximum(pair_variance + of_fork / forks + of_blocks / blocks, RESOLUTION**2)
    return predicted


@dataclass(frozen=True)
class Values:
    """Samples of one case, in the order in which they were measured (shape (n,) each).

    An effect is a log ratio. Where a value of the case is 0 or below, ratios don't exist, and it is the difference as a
    share of ``reference``: the mean absolute value of the side where that is larger. All samples have the same scale,
    so that a test of "no change" is that of the differences themselves, whatever the reference.
    """

    control: tuple[float, ...]  # process values in the metric's unit
    treatment: tuple[float, ...]
    effects: tuple[float, ...]
    noises: tuple[ForkNoise, ...]
    stages: tuple[Stage, ...]
    reference: float | None = None  # None: effects are log ratios

    @classmethod
    def of(cls, samples: Sequence[PairSample]) -> "Values":
        """Return the values of samples. Raises ValueError: a value is not finite."""
        if not samples:
            return cls((), (), (), (), ())
        noises = tuple([noise_of_forks(sample.blocks, sample.fork_ratios) for sample in samples])
        rows = [(sample.control, sample.treatment, sample.log_ratio, sample.stage) for sample in samples]
        control, treatment, effects, stages = zip(*rows, strict=True)
        _, _, within, between = zip(*noises, strict=True)
        if not all(map(math.isfinite, chain(control, treatment, effects, within, between))):
            raise ValueError(f"{samples[0].case_id}: not a finite measurement")
        reference = None
        if min(control) <= 0 or min(treatment) <= 0:
            reference = max(fmean(map(abs, side)) for side in (control, treatment))
            scale = reference or 1.0  # a reference of 0: all values are 0
            effects = tuple([second / scale - first / scale for first, second in zip(control, treatment, strict=True)])
        return cls(control, treatment, effects, noises, stages, reference)

    def bound(self, threshold: float) -> float:
        """Return the effect from which on a change is beyond ``threshold`` (a share), on either side: the same change
        for both kinds of effect, since of a rise by 2 % the larger value has 2 / 102."""
        return math.log1p(threshold) if self.reference is None else threshold / (1 + threshold)

    def first(self, n: int) -> "Values":
        """Return the first ``n`` samples."""
        return self if n >= len(self) else self._with_columns(lambda column: column[:n])

    def of_stage(self, stage: Stage) -> "Values":
        """Return the samples of a stage."""
        chosen = [sample_stage == stage for sample_stage in self.stages]
        return self._with_columns(lambda column: tuple(compress(column, chosen)))

    def _with_columns(self, choose: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> "Values":
        control, treatment, effects = choose(self.control), choose(self.treatment), choose(self.effects)
        return Values(control, treatment, effects, choose(self.noises), choose(self.stages), self.reference)

    def __len__(self) -> int:
        return len(self.effects)
