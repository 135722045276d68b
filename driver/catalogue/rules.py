"""The data file of the catalogue: categories, values of arguments, and functions that can't be run."""

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
    """of the spec"""
    operators: list[str] = Field(min_length=1)
    """names, or globs over the build's functions"""
    but: list[str] = Field(default_factory=list)
    """globs over names that its own globs don't mean"""
    kinds: list[FunctionKind] | None = None
    """the kinds of functions that globs match"""
    inputs: dict[str, Any] = Field(default_factory=dict)
    """values for those of its operators that have such an argument"""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """values for those that require such an argument"""
    dtypes: list[str] = Field(default_factory=list)
    """a case of each that the operator takes, the first in all sizes, the others in the last one"""
    backward: bool = False
    """whether operators have backward cases"""
    sizes: list[Size] = Field(default=["small", "large", "skewed"])
    """those of its values' sizes that make cases"""
    prefix: str = ""
    """of identifiers"""


class Operator(Strict):
    """The rule of one operator, which replaces its category's values. A name may be a glob; the first match counts."""

    inputs: dict[str, Any] = Field(default_factory=dict)
    cases: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """named sets of inputs, each a case of its own, with settings under ``case``"""
    backward: bool | None = None
    sizes: list[Size] | None = None
    dtypes: list[str] | None = None
    hybrid: bool | None = None
    """false for a block that claims to be hybrid but can't be hybridized"""


class Rules(Strict):
    """The rules of a catalogue. An operator is left out if it has an argument for which no rule gives a value."""

    shapes: dict[str, Any] = Field(default_factory=dict)
    """values with anchors, for use in the others"""
    arguments: dict[str, Any]
    """values of tensors and required arguments where neither operator nor category has one"""
    categories: dict[str, Category] = Field(min_length=1)
    """by name"""
    operators: dict[str, Operator] = Field(default_factory=dict)
    """by name or glob"""
    input_sets: dict[str, int] = Field(default_factory=dict)
    """function or glob: how many sets of inputs its calls take in turn"""
    cannot: dict[str, str] = Field(default_factory=dict)
    """function, registered operator or glob: the reason why it has no case"""
    unlisted: dict[str, str] = Field(default_factory=dict)
    """the same for functions that no category names"""
    beside: list[str] = Field(default_factory=list)
    """specs written by hand that the bundle lists, too"""
    more: list[str] = Field(default_factory=list)
    """other files of rules beside this one"""
    namespaces: list[str] = Field(default_factory=list)
    """modules and classes whose public functions are listed, for the framework ``python``"""
    folder: str = "operators"
    """where specs are written, below specifications/"""
    bundle: str = "all"
    """the spec that lists them, without suffix"""


def catalogue_names(framework: Framework) -> list[str]:
    """Return the framework's catalogues, by the names of their files of rules."""
    return sorted(
        path.stem for path in framework.specifications.glob("*" + SUFFIX) if "categories:" in path.read_text()
    )


def load_rules(framework: Framework, name: str = USUAL) -> Rules:
    """Return the framework's rules, or those of the catalogue called ``name``, if it has several. Raise UsageError if
    the file is missing, isn't YAML or says something impossible; it names file, field and fix."""
    path = framework.specifications / f"{name}{SUFFIX}"
    rules = read_data(path, Rules, PURPOSE)
    for name in rules.more:
        rules = _joined(rules, read_data(path.with_name(name), Rules, PURPOSE), path.with_name(name))
    return rules


def _joined(rules: Rules, more: Rules, path: Path) -> Rules:
    """Return both as one; each says what the other doesn't."""
    both: dict[str, Any] = {}
    for field in ("arguments", "categories", "operators", "input_sets", "cannot", "unlisted"):
        ours, theirs = getattr(rules, field), getattr(more, field)
        for name in theirs:
            if name in ours:
                raise UsageError(f"{path}: {field}.{name}: is in {USUAL}{SUFFIX} or another file, too: keep one")
        both[field] = {**ours, **theirs}
    return rules.model_copy(update=both)
