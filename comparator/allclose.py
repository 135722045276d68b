"""Whether two arrays hold the same numbers, to within what their dtype allows, and where they first don't."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import linalg

from opduel.records import Tolerance

# The relative tolerances of mxnet.test_utils.default_rtols (1.9.1), by which MXNet's own tests compare.
RELATIVE_BY_SIZE = {2: 1e-2, 4: 1e-4, 8: 1e-5}  # size of a floating-point number in bytes -> share
# Rounding errors of a sum grow with the terms, not with the result, which may be near 0 by cancellation. So the
# absolute tolerance is the relative one of a number of the array's usual size, but at least what this many roundings of
# a number of size 1 leave: inputs are of size 1, and a result may be 0 but for rounding.
ROUNDINGS = 10
# For dtypes that NumPy lacks: the tolerance of PyTorch's own tests (torch.testing), and the step above 1.
RELATIVE_BY_PRECISION, STEP_BY_PRECISION = {"bfloat16": 1.6e-2}, {"bfloat16": 2.0**-7}
ABSOLUTE_OF_INTEGERS = 0.5  # of booleans, too: any difference is larger
CHUNK = 1 << 20  # elements compared at a time


@dataclass(frozen=True)
class Closeness:
    """How close two arrays of one shape and dtype are.

    ``figure`` is the largest |a - b| / (absolute + relative |a|), ``a`` the first array's elements. Above 1 they
    differ; it is infinite where one of two elements is NaN, or one is infinite and the other not its equal.
    ``different`` counts the elements above 1, ``first`` is the index of the first of them in C order, and ``values``
    both elements there.
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
    """Return how close ``b`` is to ``a``; both of one shape (any) and one dtype: booleans, integers, or real numbers,
    rounded to ``precision`` if that is a dtype that NumPy lacks. They may be mapped files: ``CHUNK`` elements at a time
    take memory."""
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
    index = tuple(int(axis_index) for axis_index in np.unravel_index(first, shape)) if shape else ()
    return Closeness(figure, relative, absolute, different, index, (a[first].item(), b[first].item()))


def tolerances(a: npt.NDArray[np.generic], tolerance: Tolerance, precision: str = "") -> tuple[float, float]:
    """Return the relative and absolute tolerance for ``a`` (one-dimensional): those of ``tolerance``, and by default
    what follows from the dtype (or ``precision``) and the size of its numbers."""
    floating = np.issubdtype(a.dtype, np.floating)
    relative = tolerance.relative
    if relative is None:
        relative = RELATIVE_BY_SIZE.get(a.dtype.itemsize, RELATIVE_BY_SIZE[8]) if floating else 0.0
        relative = RELATIVE_BY_PRECISION.get(precision, relative)
    if tolerance.absolute is not None:
        return relative, tolerance.absolute
    if not floating:
        return relative, ABSOLUTE_OF_INTEGERS
    step = STEP_BY_PRECISION.get(precision, float(np.finfo(np.dtype(f"f{a.dtype.itemsize}")).eps))
    return relative, max(relative * usual_size(a), ROUNDINGS * step)


def usual_size(a: npt.NDArray[np.generic]) -> float:
    """Return the root mean square of the finite elements of ``a`` (one-dimensional); 0 where there are none."""
    norm, count = 0.0, 0
    for start in range(0, a.size, CHUNK):
        chunk = a[start : start + CHUNK]
        finite = chunk[np.isfinite(chunk)].astype(np.float64)
        norm = math.hypot(norm, float(linalg.norm(finite)))  # both without overflow
        count += len(finite)
    return norm / math.sqrt(count) if count else 0.0


def _scaled(
    a: npt.NDArray[np.generic], b: npt.NDArray[np.generic], relative: float, absolute: float
) -> npt.NDArray[np.float64]:
    """Return each element's distance in tolerances; 0 where both are the same infinity, or both NaN."""
    same = (a == b) | ((a != a) & (b != b))  # NaN is not equal to itself
    a_values, b_values = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        distance = np.abs(a_values - b_values)
        if not np.issubdtype(a.dtype, np.floating):
            distance = np.maximum(distance, 1.0)  # float64 may not tell large neighbouring integers apart
        scaled = distance / (absolute + relative * np.abs(a_values))
    scaled[~np.isfinite(a_values) | ~np.isfinite(b_values) | np.isnan(scaled)] = np.inf
    scaled[same] = 0.0
    return scaled
