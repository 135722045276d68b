"""A worker's frequency: set on all processors, and put back at its end."""

from pathlib import Path

import pytest

from opduel.fleet.frequency import frequency_set
from opduel.records import UsageError

LIMITS = {"scaling_min_freq": 900_000, "scaling_max_freq": 3_000_000}


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """Return the part of sysfs with cpufreq, of processors with two policies."""
    folder = tmp_path / "cpufreq"
    for number in (0, 2):
        (folder / f"policy{number}").mkdir(parents=True)
        for name, kilohertz in {"cpuinfo_min_freq": 800_000, "cpuinfo_max_freq": 3_600_000, **LIMITS}.items():
            (folder / f"policy{number}" / name).write_text(f"{kilohertz}\n")
    return folder


def read_limits(policies: Path) -> list[dict[str, int]]:
    return [{name: int((policy / name).read_text()) for name in LIMITS} for policy in sorted(policies.iterdir())]


@pytest.mark.parametrize(
    ("frequency", "kilohertz"), [("max", 3_600_000), ("mid", 2_200_000), ("min", 800_000), ("2400", 2_400_000)]
)
@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_it_is_set_and_put_back(
    policies: Path, frequency: str, kilohertz: int, error: type[BaseException] | None
) -> None:
    try:
        with frequency_set(frequency, policies):
            assert read_limits(policies) == [dict.fromkeys(LIMITS, kilohertz)] * 2
            if error:
                raise error
    except KeyboardInterrupt:
        pass
    assert read_limits(policies) == [LIMITS] * 2


def test_the_lower_limit_is_never_above_the_upper_one(policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses that."""
    write_text = Path.write_text

    def checked(path: Path, text: str) -> int:
        written = write_text(path, text)
        assert all(limits["scaling_min_freq"] <= limits["scaling_max_freq"] for limits in read_limits(policies))
        return written

    monkeypatch.setattr(Path, "write_text", checked)
    for frequency in ("max", "min"):
        with frequency_set(frequency, policies):
            pass


@pytest.mark.parametrize("frequency", ["9000", "100"])
def test_what_the_host_does_not_have_is_refused(policies: Path, frequency: str) -> None:
    with (
        pytest.raises(UsageError, match=f"--set_freq {frequency}: this host goes from 800 to 3600 MHz"),
        frequency_set(frequency, policies),
    ):
        pass
    assert read_limits(policies) == [LIMITS] * 2


def test_a_host_without_frequency_control_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="this host has no frequency control") as caught,
        frequency_set("max", tmp_path),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_where_one_cannot_be_set_the_others_are_put_back(policies: Path) -> None:
    (policies / "policy2" / "scaling_max_freq").unlink()  # whoever reads it gets an error, root too
    with pytest.raises(UsageError, match="cannot be set"), frequency_set("max", policies):
        pass
    assert int((policies / "policy0" / "scaling_max_freq").read_text()) == LIMITS["scaling_max_freq"]
