"""Whether two arrays hold the same numbers, to within what their dtype allows, and where they first don't."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opduel.records import Tolerance

# The relative tolerances of mxnet.test_utils.default_rtols (1.9.1), by which MXNet's own tests compare.
RELATIVE = {2: 1e-2, 4: 1e-4, 8: 1e-5}  # size of a floating-point number in bytes -> share
# Rounding errors of a sum grow with the terms, not with the result, which may be near 0 by cancellation: the absolute
# tolerance is the relative one of a number of the array's usual size.  It is never less than what this many roundings
# of a number of size 1 leave: inputs are of size 1, and a result may be 0 but for rounding.
ROUNDINGS = 10
# Of dtypes that NumPy lacks: the share by which PyTorch's own tests compare (torch.testing), and the step above 1.
RELATIVE_OF, STEP_OF = {"bfloat16": 1.6e-2}, {"bfloat16": 2.0**-7}
WHOLE = 0.5  # absolute tolerance of whole numbers and truth values: any difference is one
CHUNK = 1 << 20  # elements looked at at a time


@dataclass(frozen=True)
class Closeness:
    """What two arrays of one shape and dtype have in common.

    ``figure`` is the largest |a - b| / (absolute + relative |a|), ``a`` the first array's elements: above 1 they
    differ; infinite where a number is finite or known on one side alone, or either of them infinite and not the other's
    equal. ``different`` counts the elements above 1, ``first`` is the index of the first of them in C order, and
    ``values`` both elements there.
    """

    figure: float
    relative: float
    absolute: float
    different: int
    first: tuple[int, ...] | None = None
    values: tuple[float, float] | None = None

    @property
    def close(self) -> bool:
        """Whether no element differs."""
        return self.different == 0


def compare(
    a: npt.NDArray[np.generic], b: npt.NDArray[np.generic], tolerance: Tolerance, precision: str = ""
) -> Closeness:
    """How far ``b`` lies from ``a``; both of one shape (any) and one dtype: booleans, integers, or real numbers.
    ``precision``: a dtype that NumPy lacks, to which their values are rounded; empty for their own.

    Memory is used for a part of the arrays at a time, so that they may be mapped files.
    """
    shape = a.shape
    a, b = a.reshape(-1), b.reshape(-1)
    relative, absolute = tolerances(a, tolerance, precision)
    figure, different, first = 0.0, 0, None
    for start in range(0, a.size, CHUNK):
        scaled = _scaled(a[start : start + CHUNK], b[start : start + CHUNK], relative, absolute)
        figure = max(figure, float(scaled.max()))
        beyond = np.flatnonzero(scaled > 1)
        different += len(beyond)
        if first is None and len(beyond):
            first = start + int(beyond[0])
    if first is None:
        return Closeness(figure, relative, absolute, 0)
    index = tuple(int(one) for one in np.unravel_index(first, shape)) if shape else ()
    return Closeness(figure, relative, absolute, different, index, (a[first].item(), b[first].item()))


def tolerances(a: npt.NDArray[np.generic], tolerance: Tolerance, precision: str = "") -> tuple[float, float]:
    """The relative and absolute tolerance for numbers like those of ``a`` (one-dimensional): what ``tolerance`` says,
    else what follows from dtype, or ``precision``, and size."""
    floating = np.issubdtype(a.dtype, np.floating)
    relative = tolerance.relative
    if relative is None:
        relative = RELATIVE.get(a.dtype.itemsize, RELATIVE[8]) if floating else 0.0
        relative = RELATIVE_OF.get(precision, relative)
    if tolerance.absolute is not None:
        return relative, tolerance.absolute
    if not floating:
        return relative, WHOLE
    step = STEP_OF.get(precision, float(np.finfo(np.dtype(f"f{a.dtype.itemsize}")).eps))
    return relative, max(relative * usual_size(a), ROUNDINGS * step)


def usual_size(a: npt.NDArray[np.generic]) -> float:
    """The root mean square of the finite ones among ``a`` (one-dimensional); 0 where there are none."""
    total, count, largest = 0.0, 0, 0.0
    chunks = [a[start : start + CHUNK] for start in range(0, a.size, CHUNK)]
    for chunk in chunks:
        finite = np.abs(chunk[np.isfinite(chunk)].astype(np.float64))
        largest = max(largest, float(finite.max(initial=0.0)))
    for chunk in chunks if largest else ():
        finite = chunk[np.isfinite(chunk)].astype(np.float64) / largest  # squares of it don't overflow
        total += float(finite @ finite)
        count += len(finite)
    return largest * math.sqrt(total / count) if count else 0.0


def _scaled(
    a: npt.NDArray[np.generic], b: npt.NDArray[np.generic], relative: float, absolute: float
) -> npt.NDArray[np.float64]:
    """Each element's distance in tolerances, 0 where both are the same: the same infinity, or no number both."""
    same = (a == b) | ((a != a) & (b != b))  # what isn't equal to itself is no number
    left, right = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        distance = np.abs(left - right)
        if not np.issubdtype(a.dtype, np.floating):
            distance = np.maximum(distance, 1.0)  # of large integers float64 may not tell neighbours apart
        scaled = distance / (absolute + relative * np.abs(left))
    scaled[~np.isfinite(left) | ~np.isfinite(right) | np.isnan(scaled)] = np.inf
    scaled[same] = 0.0
    return scaled
