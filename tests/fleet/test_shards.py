"""Cases in shards: each once, in parts that get smaller, those that belong together in one."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import a_case

from opduel.fleet.shards import FEWEST, cut
from opduel.records import Case


def cases(count: int) -> list[Case]:
    return [a_case(f"c{number}") for number in range(count)]


@given(st.integers(0, 200), st.integers(1, 40), st.integers(0, 5))
def test_every_case_is_in_one_shard(count: int, hosts: int, seed: int) -> None:
    all_cases = cases(count)
    shards = cut(all_cases, lambda case: 1.0 + int(case.id[1:]) % 7, hosts, seed)
    assert Counter(case.id for shard in shards for case in shard.cases) == Counter(case.id for case in all_cases)
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert all(shard.cases for shard in shards)
    if shards:
        assert sum(shard.share for shard in shards) == pytest.approx(1)


@given(st.integers(1, 60), st.integers(1, 6))
def test_few_cases_are_one_shard_for_each_host_at_most(each: int, hosts: int) -> None:
    shards = cut(cases(each), lambda _: 1.0, hosts, 1)
    assert min(len(shard.cases) for shard in shards) >= min(each, FEWEST // 2)


def test_shards_get_smaller_so_that_hosts_end_together() -> None:
    sizes = [len(shard.cases) for shard in cut(cases(1000), lambda _: 1.0, 4, 1)]
    assert sizes[0] == pytest.approx(1000 / 8, abs=1)
    assert sizes[:12] == sorted(sizes[:12], reverse=True)
    assert all(FEWEST <= size <= 2 * FEWEST for size in sizes[-4:])


def test_dear_cases_make_small_shards() -> None:
    shards = cut(cases(400), lambda case: 100.0 if int(case.id[1:]) < 40 else 1.0, 2, 1)
    assert max(shard.share for shard in shards) < 0.3


def test_metrics_of_one_case_stay_together() -> None:
    all_cases = [
        a_case(name if metric == "time" else f"{name}/{metric}", metric=metric)
        for name in (f"c{number}" for number in range(50))
        for metric in ("time", "instructions")
    ]
    for shard in cut(all_cases, lambda _: 1.0, 3, 2):
        assert all(count == 2 for count in Counter(case.time_id for case in shard.cases).values())


def test_the_seed_decides_which_cases_go_together() -> None:
    all_cases = cases(100)
    ids = [[shard.cases for shard in cut(all_cases, lambda _: 1.0, 3, seed)] for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]


def test_without_a_host_there_are_no_shards() -> None:
    with pytest.raises(ValueError, match="hosts must be positive"):
        cut(cases(3), lambda _: 1.0, 0, 1)
