"""The values of one case, and the predicted variance of each of its samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from statistics import fmean
from typing import NamedTuple

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
    """Samples of one case, in the order in which they were measured (shape (n,) each)."""

    control: tuple[float, ...]  # process values in the metric's unit, 0 or more
    treatment: tuple[float, ...]
    log_ratios: tuple[float, ...]
    noises: tuple[ForkNoise, ...]
    stages: tuple[Stage, ...]

    @classmethod
    def of(cls, samples: Sequence[PairSample]) -> "Values":
        """Return the values of samples.

        Raises:
            ValueError: a value is not finite, or a process value below 0.
        """
        noises = tuple(noise_of_forks(sample.blocks, sample.fork_ratios) for sample in samples)
        for sample, noise in zip(samples, noises, strict=True):
            numbers = (sample.control, sample.treatment, sample.log_ratio, noise.within, noise.between)
            if min(sample.control, sample.treatment) < 0 or not all(map(math.isfinite, numbers)):
                raise ValueError(f"{sample.case_id}, round {sample.round}: not a finite measurement of 0 or more")
        return cls(
            tuple(sample.control for sample in samples),
            tuple(sample.treatment for sample in samples),
            tuple(sample.log_ratio for sample in samples),
            noises,
            tuple(sample.stage for sample in samples),
        )

    def first(self, n: int) -> "Values":
        """Return the first ``n`` samples."""
        return Values(*(column[:n] for column in vars(self).values()))

    def of_stage(self, stage: Stage) -> "Values":
        """Return the samples of a stage."""
        chosen = [sample_stage == stage for sample_stage in self.stages]
        return Values(*(tuple(compress(column, chosen)) for column in vars(self).values()))

    def __len__(self) -> int:
        return len(self.log_ratios)
