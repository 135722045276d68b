"""Whether a function works on vectors, by the instructions that it executes."""

from opduel.causes.collectors.callgrind_file import FunctionCost
from opduel.records.cause import ONE_BY_ONE, VECTORS

MANY, FEW = 0.2, 0.1  # shares of a function's instructions from which on it works on vectors, and up to which not
DECODED = 0.98  # share of them of which that must be known


def describe_vectors(cost: FunctionCost) -> str:
    """Return ``vectors of 32 bytes``, or ``one element at a time``; empty where it is neither clearly."""
    on_vectors = sum(cost.vectors.values())
    if not cost.self_cost or cost.looked_at < DECODED * cost.self_cost:
        return ""
    if on_vectors >= MANY * cost.self_cost:
        width = max(cost.vectors, key=lambda size: (cost.vectors[size] * size, size))
        return f"{VECTORS}{width} bytes"
    return ONE_BY_ONE if on_vectors <= FEW * cost.self_cost else ""
