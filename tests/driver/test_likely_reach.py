"""Cases that probably run what changed, by names: those of the functions that mention it, and so on."""

from pathlib import Path

from opduel.driver.likely_reach import Definition, LikelyReach, definitions, steps_from
from opduel.records import Case

PACKAGE = '''
"""sum_up() calls _query."""

class Tree:
    def __init__(self, items):
        self.items = items

    def query(self):
        return _query(self.items)  # not join

def _query(items):
    return items

def join(one, two):
    return _query(one)

def overlay(one, two):
    """See also join."""
    return clip(join(one, two))
'''
SUITE = """
class Bench:
    def setup(self):
        self.one = ()

    def time_join(self):
        join(self.one, self.one)

    def time_overlay(self):
        overlay(self.one, self.one)

    def time_method(self, name):
        getattr(self.one, name)()

    def time_reading(self):
        read(self.one)
"""


def case(operator: str, **inputs: str) -> Case:
    return Case(operator, operator, "", inputs, "", "cpu", 0.02, 20.0)


def likely(folder: Path, *parts: str) -> LikelyReach:
    for path, text in {"pkg/tools.py": PACKAGE, "pkg/tests/test_tools.py": SUITE, "suite/joins.py": SUITE}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return LikelyReach(folder, parts, folder / "suite")


def test_benchmarks_are_ranked_by_the_calls_between_them_and_the_change(tmp_path: Path) -> None:
    ranks = likely(tmp_path, "pkg/tools.py:_query")
    cases = [case(f"joins.Bench.time_{name}") for name in ("reading", "overlay", "join")]
    by_parameter = [case("joins.Bench.time_method", name=name) for name in ("items", "query")]
    assert [ranks.rank(each) for each in (*cases, *by_parameter)] == [5, 2, 1, 5, 1]


def test_a_line_of_python_counts(tmp_path: Path) -> None:
    ranks = likely(tmp_path, "pkg/tools.py:_query")
    statements = [case("statement", statement="pkg.overlay((), ())"), case("statement", statement="pkg.clip(())")]
    assert [ranks.rank(each) for each in statements] == [2, 5]


def test_a_file_that_changed_stands_for_what_it_defines(tmp_path: Path) -> None:
    ranks = likely(tmp_path, "pkg/tools.py")
    assert ranks.rank(case("joins.Bench.time_overlay")) == 0
    assert ranks.rank(case("joins.Bench.time_reading")) == 5


def test_an_initialiser_has_the_name_of_its_class(tmp_path: Path) -> None:
    ranks = likely(tmp_path, "pkg/tools.py:Tree.__init__")
    assert ranks.rank(case("statement", statement="Tree(())")) == 0


def test_definitions_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(PACKAGE)
    names = {definition.name: definition.names for definition in definitions(tmp_path / "tools.py")}
    assert list(names) == ["Tree", "query", "_query", "join", "overlay"]
    assert {"_query", "items"} <= names["query"]
    assert "join" not in names["query"]
    assert not [*definitions(tmp_path / "missing.py")]


def test_steps_are_those_of_the_shortest_way() -> None:
    calls = {"a": "b", "b": "c", "c": "d", "d": "e", "e": "f", "f": "a"}
    graph = [Definition(name, frozenset({callee})) for name, callee in calls.items()]
    assert steps_from(["f"], [*graph, Definition("a", frozenset({"f"}))]) == {
        "f": 0,
        "e": 1,
        "a": 1,
        "d": 2,
        "c": 3,
        "b": 4,
    }
