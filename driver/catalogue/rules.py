"""The data file of the catalogue: categories, what each argument is given, and what can't be run."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from opduel.driver.builds.data_file import Strict, read_data
from opduel.frameworks import Framework
from opduel.records import UsageError

USUAL = "operators"  # the rules of a framework that has one catalogue
SUFFIX = ".yaml"
PURPOSE = "it has the rules for this framework's operators"

Size = Literal["small", "large", "skewed"]
FunctionKind = Literal["function", "ufunc", "class", "method"]


class Category(Strict):
    """Operators that become one spec."""

    description: str
    operators: list[str] = Field(min_length=1)  # functions' names, or globs over them
    but: list[str] = Field(default_factory=list)  # globs over those that its own globs don't mean
    kinds: list[FunctionKind] | None = None  # of those that globs match; all of them by default
    inputs: dict[str, Any] = Field(default_factory=dict)  # for those of its operators that have such an argument
    arguments: dict[str, Any] = Field(default_factory=dict)  # the same where it is required; before those of all
    # Each of them, for operators whose inputs can be of it: the first for all sizes, the others for the last one.
    dtypes: list[str] = Field(default_factory=list)
    backward: bool = False
    sizes: list[Size] = Field(default=["small", "large", "skewed"])  # of those that its values have
    prefix: str = ""  # of the cases' names


class Operator(Strict):
    """What one operator is given in place of its category's."""

    inputs: dict[str, Any] = Field(default_factory=dict)
    cases: dict[str, dict[str, Any]] = Field(default_factory=dict)
    backward: bool | None = None
    sizes: list[Size] | None = None
    dtypes: list[str] | None = None
    hybrid: bool | None = None  # false: a block that says it can be hybridized, and can't


class Rules(Strict):
    """The whole file."""

    shapes: dict[str, Any] = Field(default_factory=dict)  # for YAML's anchors; not read
    arguments: dict[str, Any]
    categories: dict[str, Category] = Field(min_length=1)
    operators: dict[str, Operator] = Field(default_factory=dict)
    # A function's name, or a glob -> between how many sets of inputs its calls alternate: its time depends on them.
    input_sets: dict[str, int] = Field(default_factory=dict)
    # A function's or registered operator's name, or a glob -> why it is no case.
    cannot: dict[str, str] = Field(default_factory=dict)
    unlisted: dict[str, str] = Field(default_factory=dict)  # the same of functions that no category names
    beside: list[str] = Field(default_factory=list)  # specs written by hand that the bundle lists, too
    more: list[str] = Field(default_factory=list)  # other files of rules beside this one
    namespaces: list[str] = Field(default_factory=list)  # what the registry's script lists: its arguments
    folder: str = "operators"  # of the specs, below specifications/
    bundle: str = "all"  # the spec that lists them, without suffix


def catalogue_names(framework: Framework) -> list[str]:
    """The framework's catalogues, by the names of their files of rules."""
    return sorted(
        path.stem for path in framework.specifications.glob("*" + SUFFIX) if "categories:" in path.read_text()
    )


def load_rules(framework: Framework, name: str = USUAL) -> Rules:
    """The framework's rules, or those of the catalogue called ``name``, if it has several.

    Raises:
        UsageError: the file is missing, isn't YAML or says something impossible; names file, field and fix.
    """
    path = framework.specifications / f"{name}{SUFFIX}"
    rules = read_data(path, Rules, PURPOSE)
    for name in rules.more:
        rules = _joined(rules, read_data(path.with_name(name), Rules, PURPOSE), path.with_name(name))
    return rules


def _joined(rules: Rules, more: Rules, path: Path) -> Rules:
    """Both as one; each says what the other doesn't."""
    both: dict[str, Any] = {}
    for field in ("arguments", "categories", "operators", "input_sets", "cannot", "unlisted"):
        ours, theirs = getattr(rules, field), getattr(more, field)
        for name in theirs:
            if name in ours:
                raise UsageError(f"{path}: {field}.{name}: is in {USUAL}{SUFFIX} or another file, too: keep one")
        both[field] = {**ours, **theirs}
    return rules.model_copy(update=both)
