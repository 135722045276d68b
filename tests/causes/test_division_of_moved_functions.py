"""How a difference divides among calls of functions that stand in other modules, or gave way to others."""

import pytest
from divisions import differences

from opduel.causes.attribution.call_division import divide_by_call
from opduel.causes.attribution.moved_functions import rename_moved_functions
from opduel.causes.attribution.shares import examine
from opduel.records.cause import Observation, Part

Seen = list[tuple[str, str, float, float, float, str | None]]  # module, function, own ns, inclusive ns, calls, caller


def python_side(rows: Seen) -> dict[str, Part]:
    names = {function: f"{module}.{function}" if module else function for module, function, *_ in rows}
    return {
        names[function]: Part(
            own,
            calls,
            f"{module.replace('.', '/')}.py:1" if module else "",
            {names[caller]: 1.0} if caller else {},
            "caller.py:9",
            inclusive,
        )
        for module, function, own, inclusive, calls, caller in rows
    }


# numpy.poly1d of three coefficients, and numpy.polydiv, on NumPy 1.26.4 and 2.2.6: the functions that matter, in ns.
POLY1D: tuple[Seen, Seen] = (
    [
        ("", "the call", 162, 1125, 1, None),
        ("numpy.lib.polynomial", "poly1d.__init__", 495, 963, 1, "the call"),
        ("numpy.core.shape_base", "atleast_1d", 235, 235, 1, "poly1d.__init__"),
        ("numpy.lib.function_base", "trim_zeros", 233, 233, 1, "poly1d.__init__"),
        ("numpy.lib.function_base", "_trim_zeros", 19, 19, 1, "poly1d.__init__"),
    ],
    [
        ("", "the call", 243, 5818, 1, None),
        ("numpy.lib._polynomial_impl", "poly1d.__init__", 613, 5575, 1, "the call"),
        ("numpy._core.shape_base", "atleast_1d", 182, 182, 1, "poly1d.__init__"),
        ("numpy.lib._function_base_impl", "trim_zeros", 978, 4756, 1, "poly1d.__init__"),
        ("numpy.lib._function_base_impl", "_trim_zeros", 24, 24, 1, "poly1d.__init__"),
        ("numpy.lib._function_base_impl", "_arg_trim_zeros", 2019, 3778, 1, "trim_zeros"),
        ("numpy._core.numeric", "argwhere", 1759, 1759, 1, "_arg_trim_zeros"),
    ],
)
POLYDIV: tuple[Seen, Seen] = (
    [
        ("numpy.lib.polynomial", "polydiv", 10294, 80001, 1, None),
        ("numpy.core.numeric", "allclose", 13702, 69707, 5, "polydiv"),
        ("numpy.core.numeric", "isclose", 1366, 56005, 5, "allclose"),
        ("numpy.core.numeric", "isclose.<locals>.within_tol", 25485, 25485, 5, "isclose"),
        ("numpy.core.fromnumeric", "all", 29154, 29154, 15, "isclose"),
    ],
    [
        ("numpy.lib._polynomial_impl", "polydiv", 8568, 35508, 1, None),
        ("numpy._core.numeric", "allclose", 2966, 26940, 5, "polydiv"),
        ("numpy._core.numeric", "isclose", 11389, 13857, 5, "allclose"),
        ("numpy._core.numeric", "isclose.<locals>.<genexpr>", 2468, 2468, 25, "isclose"),
        ("numpy._core.fromnumeric", "all", 10117, 10117, 5, "allclose"),
    ],
)


def moved(sides: tuple[Seen, Seen]) -> list[Observation]:
    before, after = map(python_side, sides)
    return rename_moved_functions([{"control": before, "treatment": after}] * 3)


def test_a_function_whose_module_has_another_name_is_followed_further_down() -> None:
    examination = examine("Python functions", "ns", divide_by_call(moved(POLY1D)))
    first, second, *_ = examination.candidates
    assert (first.name, first.was, first.calls) == (
        "numpy.lib._function_base_impl._arg_trim_zeros", "", (None, 1.0)
    )  # fmt: skip
    assert first.share == pytest.approx(3778 / (5818 - 1125), abs=0.01)
    assert (second.name, second.was) == (
        "numpy.lib._function_base_impl.trim_zeros", "numpy.lib.function_base.trim_zeros"
    )  # fmt: skip


def test_of_functions_in_other_modules_those_that_came_and_went_are_no_pair() -> None:
    examination = examine("Python functions", "ns", divide_by_call(moved(POLYDIV)))
    by_name = {candidate.name.rpartition(".")[2]: candidate for candidate in examination.candidates}
    assert [candidate.name.rpartition(".")[2] for candidate in examination.candidates[:2]] == ["within_tol", "all"]
    assert (by_name["within_tol"].was, by_name["within_tol"].treatment) == ("", 0.0)
    assert (by_name["all"].calls, by_name["all"].was) == ((15.0, 5.0), "numpy.core.fromnumeric.all")


def test_a_new_function_between_two_others_has_nothing_of_what_it_calls_in_their_place() -> None:
    """``pdist`` of SciPy 1.14.1 and 1.15.3, where the metric is deprecated: the same function in C, and a warning."""
    distance, wrapper = "scipy.spatial.distance", "_deprecated.<locals>.wrap.<locals>.call"
    before: Seen = [
        (distance, "pdist", 895, 1872, 1, None),
        ("scipy.spatial._distance_pybind", "pdist_sokalmichener", 977, 977, 1, "pdist"),
    ]
    after: Seen = [
        (distance, "pdist", 1042, 3178, 1, None),
        ("scipy._lib.deprecation", wrapper, 131, 2136, 1, "pdist"),
        ("scipy.spatial._distance_pybind", "pdist_sokalmichener", 1051, 1051, 1, wrapper),
        ("_warnings", "warn", 954, 954, 1, wrapper),
    ]
    for sides, sign in (((before, after), 1), ((after, before), -1)):
        assert differences(divide_by_call(moved(sides))) == {
            f"scipy._lib.deprecation.{wrapper}": sign * (131 + 954),
            "scipy.spatial._distance_pybind.pdist_sokalmichener": sign * (1051 - 977),
            f"{distance}.pdist": sign * (1042 - 895),
        }


def test_a_function_that_gave_way_to_another_leaves_what_both_call_beside_them() -> None:
    before: Seen = [("m", "f", 10, 130, 1, None), ("m", "old", 20, 120, 1, "f"), ("m", "work", 100, 100, 1, "old")]
    after: Seen = [("m", "f", 10, 265, 1, None), ("m", "new", 150, 255, 1, "f"), ("m", "work", 105, 105, 1, "new")]
    assert differences(divide_by_call(moved((before, after)))) == {"m.old": -20, "m.new": 150, "m.work": 5}
    twice: Seen = [*after[:2], ("m", "work", 205, 205, 2, "new")]
    assert differences(divide_by_call(moved((before, twice))))["m.new"] == 255, "the added call is its own"
