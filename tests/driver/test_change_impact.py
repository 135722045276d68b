"""Which cases a change can touch: rules by path, and those that ship with MXNet."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from toy_framework import write_releases

from opduel.driver.change_impact import FILE_NAME, ImpactRules, Rule, impact_of, load_impact_rules
from opduel.frameworks import get_framework
from opduel.harness.specs import find_spec, load_spec
from opduel.records import UsageError

DATA = ImpactRules(
    along=["net.*"],
    rules=[
        Rule(paths=["docs/*", "*.md"], nothing="documentation"),
        Rule(paths=["src/special/*.cc"], operators=["nd.special"]),
        Rule(paths=["src/*.cc"], operators=["nd.*"], categories=["gemm"]),
    ],
)


def test_the_first_rule_that_is_about_a_file_holds() -> None:
    touched = impact_of(["src/special/a.cc", "docs/a/b.html"], DATA)
    assert (touched.operators, touched.categories, touched.everything) == (("nd.special", "net.*"), (), ())
    assert touched.reasons == (
        ("nd.special", ("src/special/a.cc",)),
        ("nothing (documentation)", ("docs/a/b.html",)),
    )
    assert not touched.nothing


def test_what_several_files_can_touch_is_all_that_one_of_them_can() -> None:
    touched = impact_of(["src/special/a.cc", "src/b.cc", "src/deep/c.cc"], DATA)
    assert touched.operators == ("nd.special", "nd.*", "net.*")
    assert touched.categories == ("gemm",)
    assert touched.reasons[1] == ("nd.*, category gemm", ("src/b.cc", "src/deep/c.cc"))


def test_a_file_without_a_rule_can_touch_everything() -> None:
    touched = impact_of(["docs/a", "src/a.h", "Makefile"], DATA)
    assert touched.everything == ("src/a.h", "Makefile")
    assert not touched.nothing
    assert impact_of(["docs/a"], None).everything == ("docs/a",)


def test_documentation_alone_touches_nothing() -> None:
    touched = impact_of(["README.md", "docs/a"], DATA)
    assert touched.nothing
    assert touched.operators == ()  # not even what runs along
    assert impact_of([], DATA).nothing


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rules: [{paths: [a]}]", r"rules\[0\] must have operators or categories, or else `nothing` with the reason"),
        ("rules: [{paths: [a], operators: [b], nothing: c}]", "must have operators or categories, or else"),
        ("rules: [{paths: [], nothing: c}]", r"rules\[0\]\.paths is empty: it needs at least 1"),
        ("rules: [{path: a}]", r"rules\[0\]\.path"),
        ("rule: []", "rules is missing: add it"),
        ("[", "not YAML"),
    ],
)
def test_bad_rules_name_the_field(tmp_path: Path, text: str, words: str) -> None:
    toy = write_releases(tmp_path)
    assert load_impact_rules(toy) is None
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(UsageError, match=words) as caught:
        load_impact_rules(toy)
    assert "\n" not in str(caught.value)


def test_mxnet_s_rules_name_operators_and_categories_that_there_are() -> None:
    data = load_impact_rules(get_framework("mxnet"))
    assert data is not None
    path = find_spec("all")
    operators = {test.operator for name in ("all", "nets") for test in load_spec(find_spec(name)).tests}
    categories = {spec.stem for spec in (path.parent / "operators").iterdir()}
    for rule in data.rules:
        if rule.nothing is None:
            named = [spec for spec in operators if any(fnmatchcase(spec, glob) for glob in rule.operators)]
            assert named or rule.categories, rule.paths
            assert set(rule.categories) <= categories, rule.paths


@pytest.mark.parametrize(
    ("path", "case", "touched"),
    [
        ("python/mxnet/ndarray/ndarray.py", "nd.add", True),  # the class of all arrays
        ("python/mxnet/gluon/loss.py", "gluon.loss.L2Loss", True),
        ("python/mxnet/gluon/loss.py", "model_zoo.resnet18_v1", True),
        ("python/mxnet/gluon/loss.py", "nd.add", False),
        ("python/mxnet/gluon/block.py", "gluon.rnn.LSTM", True),
        ("python/mxnet/numpy/linalg.py", "np.linalg.svd", True),
        ("python/mxnet/numpy/linalg.py", "np.add", False),
        ("python/mxnet/numpy/multiarray.py", "np.linalg.svd", True),
        ("src/operator/nn/convolution.cc", "gluon.nn.Conv2D", True),
        ("src/operator/nn/convolution.cc", "nd.softmax", False),
        ("src/operator/nn/convolution-inl.h", "nd.softmax", True),  # headers are shared
        ("src/operator/mshadow_op.h", "nd.exp", True),
        ("3rdparty/mshadow/mshadow/base.h", "nd.exp", True),
        ("CMakeLists.txt", "nd.exp", True),
        ("docs/python_docs/README.md", "nd.exp", False),
        ("tests/python/unittest/test_operator.py", "nd.exp", False),
    ],
)
def test_what_some_files_of_mxnet_can_touch(path: str, case: str, touched: bool) -> None:
    impact = impact_of([path], load_impact_rules(get_framework("mxnet")))
    assert (bool(impact.everything) or any(fnmatchcase(case, glob) for glob in impact.operators)) == touched
