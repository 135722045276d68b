"""Find the cases that a change can affect, from the paths of changed files and a framework's rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pydantic import Field, model_validator

from opduel.driver.builds.data_file import Strict, read_data
from opduel.frameworks import Framework

FILE_NAME = "touched.yaml"


class Rule(Strict):
    """The operators or categories that changes of some files can affect, or the reason why they affect nothing."""

    paths: list[str] = Field(min_length=1)
    operators: list[str] = Field(default_factory=list)
    categories: list[str] = Field(default_factory=list)
    nothing: str | None = None

    @model_validator(mode="after")
    def _says_one_thing(self) -> "Rule":
        if (self.nothing is None) == (not self.operators and not self.categories):
            raise ValueError("must have operators or categories, or else `nothing` with the reason")
        return self

    def holds_for(self, path: str) -> bool:
        """Tell whether the rule is about this file."""
        return any(fnmatchcase(path, pattern) for pattern in self.paths)


class ImpactRules(Strict):
    """``touched.yaml``. ``along`` lists operators that run others: they are affected whenever anything is."""

    along: list[str] = Field(default_factory=list)
    rules: list[Rule]


@dataclass(frozen=True)
class Impact:
    """The cases that a change can affect: by globs of operators and of categories.

    ``everything`` has the changed files without a rule; if there are any, all cases can be affected. ``reasons`` pairs
    what files with a rule can affect, in words, with these files.
    """

    operators: tuple[str, ...]
    categories: tuple[str, ...]
    everything: tuple[str, ...]
    reasons: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def nothing(self) -> bool:
        """Tell whether no case can be affected."""
        return not (self.operators or self.categories or self.everything)


def load_impact_rules(framework: Framework) -> ImpactRules | None:
    """Return the framework's rules; None where it has none, so that every change can affect all cases. UsageError: the
    file is invalid; names the field and the fix."""
    path = framework.specifications / FILE_NAME
    return read_data(path, ImpactRules, "it says which cases a change can touch") if path.exists() else None


def impact_of(paths: Sequence[str], data: ImpactRules | None) -> Impact:
    """Return what a change of these files (paths in the repository) can affect."""
    if data is None:
        return Impact((), (), tuple(paths), ())
    operators: dict[str, None] = {}
    categories: dict[str, None] = {}
    everything: list[str] = []
    reasons: dict[str, list[str]] = {}
    for path in paths:
        rule = next((rule for rule in data.rules if rule.holds_for(path)), None)
        if rule is None:
            everything.append(path)
            continue
        operators.update(dict.fromkeys(rule.operators))
        categories.update(dict.fromkeys(rule.categories))
        words = ", ".join([*rule.operators, *(f"category {name}" for name in rule.categories)])
        reasons.setdefault(f"nothing ({rule.nothing})" if rule.nothing else words, []).append(path)
    if operators or categories:
        operators.update(dict.fromkeys(data.along))
    reason_files = tuple((words, tuple(files)) for words, files in reasons.items())
    return Impact(tuple(operators), tuple(categories), tuple(everything), reason_files)
