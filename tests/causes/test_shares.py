"""Shares of a change: what they name, how often they are wrong, and that matching parts never changes the whole."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opduel.causes.attribution.matching import match_parts, normalised
from opduel.causes.attribution.shares import MOST_CANDIDATES, examine, is_named
from opduel.records.cause import OF_MEASURED, Examination, Observation, Part

FUNCTIONS = 20


def observed(control: dict[str, float | Part], treatment: dict[str, float | Part], n: int = 3) -> list[Observation]:
    sides = {"control": control, "treatment": treatment}
    parts = {s: {k: v if isinstance(v, Part) else Part(v) for k, v in side.items()} for s, side in sides.items()}
    return [parts] * n  # type: ignore[list-item]


def examined(control: dict[str, float | Part], treatment: dict[str, float | Part], n: int = 3) -> Examination:
    return examine("native functions", "instructions", observed(control, treatment, n))


def test_exact_counts_give_points() -> None:
    examination = examined({"f": 100, "g": 50, "h": 7}, {"f": 190, "g": 60, "h": 7})
    assert [(candidate.name, candidate.share, candidate.ci) for candidate in examination.candidates] == [
        ("f", 0.9, (0.9, 0.9)),
        ("g", 0.1, (0.1, 0.1)),
    ]
    assert examination.explained == pytest.approx(1)
    assert examination.difference_ci == (100, 100)


def test_what_is_doubtful_in_all_pairs_widens_the_interval() -> None:
    """By the difference of the doubts over the whole difference; a doubt as large on both sides cancels."""
    sides = {"f": Part(100, doubt=10), "g": Part(50, doubt=30)}, {"f": Part(190, doubt=55), "g": Part(60, doubt=30)}
    candidate_by_name = {candidate.name: candidate for candidate in examined(*sides).candidates}
    assert candidate_by_name["f"].share == 0.9
    assert candidate_by_name["f"].ci == pytest.approx((0.45, 1.35))
    assert candidate_by_name["g"].ci == (0.1, 0.1)
    alone = examined({"f": 100}, {"f": 100, "new": Part(50, doubt=60)})
    assert alone.candidates[0].ci == pytest.approx((-0.2, 2.2))
    assert alone.explained == 0, "an interval that holds 0 names nothing"


def test_the_doubts_of_joined_parts_add_up() -> None:
    examination = examined({"f.cold": Part(10, doubt=1), "f": Part(90, doubt=2)}, {"f": Part(200, doubt=13)})
    assert examination.candidates[0].ci == pytest.approx((0.9, 1.1))


def test_nothing_is_claimed_on_fewer_than_three_pairs() -> None:
    examination = examined({"f": 100}, {"f": 200}, n=2)
    assert examination.explained is None
    assert examination.candidates[0].share is None
    assert "2 process pairs of at least 3" in examination.note
    assert examine("primitives", "ns", [], "no oneDNN").note == "no oneDNN"
    assert examine("primitives", "ns", []).note.startswith("0 process pairs of at least 3")


def test_no_shares_of_a_difference_that_includes_0() -> None:
    values = [observed({"f": 100}, {"f": 100 + change}, 1)[0] for change in (-5, 6, 1)]
    examination = examine("native functions", "ns", values)
    assert examination.explained is None
    assert all(candidate.share is None for candidate in examination.candidates)


def test_names_are_bounded_and_the_record_is_short() -> None:
    examination = examined({}, {f"\x1b[31mf\n{at}" + "x" * 999: 5 + at for at in range(50)})
    assert len(examination.candidates) == MOST_CANDIDATES
    assert all(len(candidate.name) <= 300 and candidate.name.isprintable() for candidate in examination.candidates)


@pytest.mark.parametrize(
    ("was", "name"),
    [
        ("gemm_AVX2", "gemm_AVX512_SKX"),
        ("f.constprop.0", "f.constprop.3"),
        ("a::Op<int>::run(int)", "a::Op<float, 2>::run(float)"),
        ("mxnet::op::SoftmaxForward", "mxnet::op::SoftmaxForwardCPU"),
        ("code without symbols of core/providers/cpu/nn/pool.cc", "code without symbols of core/providers/cpu/pool.cc"),
    ],
)
def test_a_renamed_function_is_one_candidate(was: str, name: str) -> None:
    examination = examined({was: 100, "g": 10}, {name: 300, "g": 10})
    assert [(candidate.name, candidate.was, candidate.share) for candidate in examination.candidates] == [
        (name, was, 1.0)
    ]


def test_functions_of_unlike_names_are_two_candidates() -> None:
    assert len(examined({"memcpy": 100}, {"im2col_kernel": 300}).candidates) == 2


@pytest.mark.parametrize(
    ("was", "name", "callers"),
    [
        # below one caller, as on NumPy 1.26.4 and 2.2.6
        ("numpy.core._multiarray_umath._vec_string", "numpy._core.multiarray.result_type", {"numpy.char.rjust": 1.0}),
        ("scipy.signal._signaltools.convolve", "scipy.signal._signaltools.correlate", {}),
        (
            "code without symbols of core/providers/cpu/math/gemm.cc",
            "code without symbols of core/providers/cpu/lrn.cc",
            {},
        ),
    ],
)
def test_functions_of_alike_modules_are_two_candidates(was: str, name: str, callers: dict[str, float]) -> None:
    examination = examined({was: Part(100.0, 1, callers=callers)}, {name: Part(12.0, 1, callers=callers)})
    assert [(candidate.name, candidate.was) for candidate in examination.candidates] == [(was, ""), (name, "")]


def test_a_generator_expression_is_no_function_of_another_name() -> None:
    names = {
        candidate.name
        for candidate in examined({"m.f.<locals>.within": 100}, {"m.f.<locals>.<genexpr>": 150}).candidates
    }
    assert names == {"m.f.<locals>.within", "m.f.<locals>.<genexpr>"}


def test_an_inlined_function_is_counted_in_its_caller() -> None:
    examination = examined({"f": 100, "g": Part(90, callers={"f": 1.0}), "k": 10}, {"f": 185, "k": 60})
    assert [
        (candidate.name, candidate.difference, tuple(candidate.merged)) for candidate in examination.candidates
    ] == [
        ("k", 50, ()),
        ("f", -5, ("g",)),
    ]


def test_a_new_callee_keeps_its_name() -> None:
    examination = examined({"f": 100}, {"f": 101, "g": Part(90, callers={"f": 1.0})})
    assert [(candidate.name, tuple(candidate.merged)) for candidate in examination.candidates] == [("g", ()), ("f", ())]


def test_operators_keep_their_names() -> None:
    assert normalised("a::operator()(int)") != normalised("a::operator<(int)")


names = st.sampled_from(
    ["f", "g", "f.cold", "f.constprop.0", "h<int>", "h<float>", "k_avx2", "k_avx512", "a::b", "c::b"]
)
parts = st.builds(Part, st.floats(0, 1e6), callers=st.dictionaries(names, st.floats(0, 1), max_size=3))
sides = st.dictionaries(names, parts, max_size=8)
pairs = st.lists(st.fixed_dictionaries({"control": sides, "treatment": sides}), min_size=1, max_size=4)


@given(pairs)
@settings(max_examples=30)
def test_matching_never_changes_the_whole_difference(observations: list[Observation]) -> None:
    matched = match_parts(observations)
    for pair, observation in enumerate(observations):
        for side in ("control", "treatment"):
            total = sum(part.amount for part in observation[side].values())  # type: ignore[index]
            assert sum(getattr(part, side)[pair] for part in matched) == pytest.approx(total)


def simulated(seed: int, n: int, change: float, heavy: bool) -> tuple[bool, bool, bool]:
    """Whether shares were given, whether anything was named, and whether an interval missed its true share."""
    rng = np.random.default_rng(seed)
    base = rng.lognormal(3, 1, FUNCTIONS)
    moved = np.zeros(FUNCTIONS)
    moved[:3] = base.sum() * change * np.array([0.6, 0.3, 0.1])
    observations = []
    for _ in range(n):
        noise = rng.standard_t(3, (2, FUNCTIONS)) / 3**0.5 if heavy else rng.standard_normal((2, FUNCTIONS))
        noise[:, FUNCTIONS // 2 :] = 0  # half of the parts repeat exactly
        total = 1 + 0.01 * rng.standard_normal((2, 1))
        amounts = np.abs(np.stack([base, base + moved]) * (1 + 0.03 * noise) * total)
        control, treatment = ({f"f{at}": Part(float(amount)) for at, amount in enumerate(side)} for side in amounts)
        observations.append({"control": control, "treatment": treatment})
    examination = examine("native functions", "ns", observations)  # type: ignore[arg-type]
    truth = moved / moved.sum() if change else moved
    missed = any(
        not candidate.ci[0] <= truth[int(candidate.name[1:])] <= candidate.ci[1]
        for candidate in examination.candidates
        if candidate.ci is not None
    )
    return examination.explained is not None, any(map(is_named, examination.candidates)), missed


def rates(runs: int, n: int, change: float, heavy: bool) -> tuple[int, int, int]:
    with_shares, named, missed = np.sum([simulated(seed, n, change, heavy) for seed in range(runs)], axis=0)
    return int(with_shares), int(named), int(missed)


@pytest.mark.parametrize("heavy", [False, True])
def test_equal_sides_explain_nothing(heavy: bool) -> None:
    assert rates(100, 5, 0.0, heavy)[1] <= 5


def test_intervals_hold_the_true_shares_together() -> None:
    with_shares, named, missed = rates(150, 5, 0.1, False)
    assert with_shares >= 140
    assert named >= 100
    assert missed <= 0.07 * with_shares


@pytest.mark.statistics
@pytest.mark.nightly
@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize(("n", "change"), [(3, 0.2), (5, 0.03), (5, 0.1), (10, 0.02), (20, 0.02)])
def test_the_rates_hold_in_many_runs(n: int, change: float, heavy: bool) -> None:
    assert rates(3000, n, 0.0, heavy)[1] <= 150
    with_shares, _, missed = rates(3000, n, change, heavy)
    assert with_shares > 100
    assert missed <= 0.07 * with_shares


def test_doubt_alone_does_not_make_nothing_of_what_one_side_alone_calls() -> None:
    """``numpy.seterr``, which ``errstate`` no longer calls: watching adds more to it than it takes."""
    seterr = {"seterr": Part(2000.0, 4, doubt=9000.0)}
    other_part = {"rest": Part(10_000.0, 1)}
    before: list[Observation] = [
        {"control": {**other_part, "seterr": replace(seterr["seterr"], amount=2000.0 + ns)}, "treatment": other_part}
        for ns in (0.0, 10.0, -10.0)
    ]
    (candidate,) = examine("Python functions", "ns", before).candidates
    assert candidate.ci is not None
    assert candidate.ci[0] == pytest.approx(4 * 10 / 2000)
    assert candidate.ci[1] == pytest.approx(1 + 9000 / 2000, abs=0.05)
    assert is_named(candidate)
    (native,) = examine("native functions", "instructions", before).candidates
    assert not is_named(native), "of these it is not known what a call takes at the least"
    both: list[Observation] = [
        {"control": {**observation["control"]}, "treatment": {**other_part, "seterr": Part(5.0, 4)}}
        for observation in before
    ]
    assert not is_named(examine("Python functions", "ns", both).candidates[0])


NOISY = [(100.0, 150.0), (160.0, 155.0), (150.0, 110.0)]  # what the rest of a call takes, in each process pair


def unclear(new: float) -> list[Observation]:
    """The whole difference is noise; a part of the treatment alone is not."""
    return [
        {"control": {"f": Part(before)}, "treatment": {"f": Part(after), "new": Part(new + number * 0.01, 2.0)}}
        for number, (before, after) in enumerate(NOISY)
    ]


def test_of_an_unclear_difference_shares_are_of_what_was_measured() -> None:
    examination = examine("Python functions", "ns", unclear(20.0), "a note", (30.0, 40.0, 60.0))
    new = next(candidate for candidate in examination.candidates if candidate.name == "new")
    assert examination.note == f"{OF_MEASURED}; a note"
    assert new.share == pytest.approx(20.01 / 40)
    assert new.ci is not None
    assert new.ci[0] == pytest.approx(20.01 / 60, abs=0.01)
    assert new.ci[1] == pytest.approx(20.01 / 30, abs=0.01)
    assert examination.explained == new.share, "the rest is noise"
    assert examine("Python functions", "ns", unclear(20.0)).explained is None
    assert examine("Python functions", "ns", unclear(20.0), "", (-1.0, 40.0, 60.0)).explained is None, (
        "not clear either"
    )


def test_a_difference_that_the_process_pairs_rule_out_has_no_shares() -> None:
    far = examine("Python functions", "ns", unclear(20.0), "", (3000.0, 4000.0, 6000.0))
    assert far.explained is None


def test_a_clear_difference_has_its_own_shares() -> None:
    clear = observed({"f": 100}, {"f": 100, "new": 50})
    assert examine("Python functions", "ns", clear, "", (30.0, 40.0, 60.0)) == examine("Python functions", "ns", clear)


def test_equal_sides_have_nothing_named_by_what_was_measured() -> None:
    """At most 1 % of them, where all parts are noise."""
    rng = np.random.default_rng(1)

    def side() -> dict[str, Part]:
        return {f"f{number}": Part(float(rng.normal(100, 5)), 1.0) for number in range(FUNCTIONS)}

    runs, named = 400, 0
    for _ in range(runs):
        pairs: list[Observation] = [{"control": side(), "treatment": side()} for _ in range(5)]
        examination = examine("Python functions", "ns", pairs, "", (150.0, 200.0, 250.0))
        named += OF_MEASURED in examination.note and any(map(is_named, examination.candidates))
    assert named <= 4, "0.2 % of 400, with 99.8 % certainty"
