"""Which cases a change can touch, by the paths of the files that changed: rules that are a framework's data."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pydantic import Field, model_validator

from opduel.driver.builds.data_file import Strict, read_data
from opduel.frameworks import Framework

FILE_NAME = "touched.yaml"


class Rule(Strict):
    """What files can touch: operators, categories, or nothing. The file itself has the words for it."""

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
        """Whether it is about this file."""
        return any(fnmatchcase(path, pattern) for pattern in self.paths)


class ImpactRules(Strict):
    """``touched.yaml``. ``along``: operators that run others, touched whenever anything is."""

    along: list[str] = Field(default_factory=list)
    rules: list[Rule]


@dataclass(frozen=True)
class Impact:
    """What a change can touch: cases whose operator matches one of the globs ``operators``, or is in a category that
    matches one of ``categories``; all where ``everything`` is not empty: it has the files that no rule is about.

    ``reasons``: what files with a rule can touch, in words, and these files.
    """

    operators: tuple[str, ...]
    categories: tuple[str, ...]
    everything: tuple[str, ...]
    reasons: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def nothing(self) -> bool:
        """Whether no case can be touched."""
        return not (self.operators or self.categories or self.everything)


def load_impact_rules(framework: Framework) -> ImpactRules | None:
    """The framework's rules; None where it has none, so that every change can touch everything.

    Raises:
        UsageError: the file is bad; names the field and the fix.
    """
    path = framework.specifications / FILE_NAME
    return read_data(path, ImpactRules, "it says which cases a change can touch") if path.exists() else None


def impact_of(paths: Sequence[str], data: ImpactRules | None) -> Impact:
    """What a change of these files (paths in the repository) can touch."""
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
    told = tuple((words, tuple(files)) for words, files in reasons.items())
    return Impact(tuple(operators), tuple(categories), tuple(everything), told)
