"""What is said of a function by the vectors that it works on."""

from opduel.causes.collectors.callgrind_file import FunctionCost
from opduel.causes.collectors.vectors import describe_vectors
from opduel.records.cause import ONE_BY_ONE


def test_functions_work_on_vectors_or_single_elements() -> None:
    def cost(**changes: object) -> FunctionCost:
        return FunctionCost(1000, **{"looked_at": 1000, **changes})  # type: ignore[arg-type]

    assert describe_vectors(cost(vectors={16: 50, 32: 400})) == "vectors of 32 bytes"
    assert describe_vectors(cost(vectors={16: 400, 32: 50})) == "vectors of 16 bytes"
    assert describe_vectors(cost(vectors={16: 20})) == ONE_BY_ONE
    assert describe_vectors(cost()) == ONE_BY_ONE
    assert describe_vectors(cost(vectors={16: 150})) == "", "neither clearly"
    assert describe_vectors(cost(looked_at=900)) == "", "of some of its instructions it isn't known"
    assert describe_vectors(FunctionCost()) == ""
