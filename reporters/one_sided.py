"""How large the change of a case may be that is "not slower" or "not faster": what its interval says, in words."""

from opduel.records import METRICS, ONE_SIDED, VALUE, Comparison


def size_words(
    verdict: str, metric: str, lower_is_better: bool, interval: tuple[float | None, float | None] | None
) -> str:
    """Say ``faster by 0.4 to 2.2 %`` of a one-sided verdict and an interval of ratios on one side of 1; nothing of
    another verdict, and of an interval that holds 1."""
    low, high = interval or (None, None)
    if verdict not in ONE_SIDED or low is None or high is None or low <= 1 <= high:
        return ""
    measure = METRICS.get(metric, METRICS[VALUE])
    smallest, largest = sorted((abs(low - 1), abs(high - 1)))
    word = measure.worse if (low > 1) == lower_is_better else measure.better
    return f"{word} by {100 * smallest:.1f} to {100 * largest:.1f} %"


def size_of_change(comparison: Comparison) -> str:
    """The same of a comparison."""
    return size_words(comparison.verdict, comparison.metric, comparison.lower_is_better_here, comparison.ci)
