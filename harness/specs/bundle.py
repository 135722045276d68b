"""Several specs as one: the tests of all, each with the settings that it has in its own file."""

from collections.abc import Sequence

from opduel.harness.specs.expand import expand_cases
from opduel.harness.specs.model import Settings, Spec, Test
from opduel.records import UsageError

_DIRECTIONS = ("run_backward", "directions")  # two ways to say one thing


def gather(bundle: Spec, members: Sequence[Spec]) -> Spec:
    """The bundle with the tests of its specs, in its order.

    The bundle's own ``defaults`` hold where neither a test nor its own file says otherwise.

    Raises:
        UsageError: two of the specs have a case of one id.
    """
    assert bundle.specs
    origins: dict[str, str] = {}
    for name, member in zip(bundle.specs, members, strict=True):
        for case in expand_cases(member):
            if case.id in origins:
                raise UsageError(f"specs: {origins[case.id]} and {name} both have a case {case.id}: rename one of them")
        origins.update(dict.fromkeys((case.id for case in expand_cases(member)), name))
    tests = [_settled(test, member.defaults) for member in members for test in member.tests]
    return bundle.model_copy(update={"tests": tests, "specs": None})


def _settled(test: Test, defaults: Settings) -> Test:
    """The test with all that it leaves to its own spec's defaults."""
    said = {name for name in Settings.model_fields if getattr(test, name) is not None}
    if said & set(_DIRECTIONS):
        said |= set(_DIRECTIONS)
    return test.model_copy(update={name: getattr(defaults, name) for name in Settings.model_fields if name not in said})
