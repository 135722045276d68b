"""Do the rules of touched.yaml name every case that a changed native file can touch?

    .venv/bin/python harness.py -b all --treatment mxnet==1.9.1 --profiler native --rounds 1 --output-file profiled.json
    .venv/bin/python -m benchmarks.touched profiled.json --source CHECKOUT

Of each file of the checkout that a rule is about, the operators that it registers are looked for among those that the
profiler saw run, case by case. A case that ran one of them and that the rule doesn't name is printed. None may be.
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from commands.local import is_touched, operators_of
from driver.touched import load_touched, touched_by
from frameworks import get_framework
from harness.specs import expand_cases, find_spec, load_spec

REGISTERED = re.compile(r"\b(NNVM_REGISTER_OP|MXNET_\w*REGISTER\w*)\s*\(\s*(\w+)")
ALIASES = re.compile(r'\.?add_alias\("(\w+)"\)|MXNET_ADD_SPARSE_OP_ALIAS\((\w+)\)')
NAMED = {"SAMPL": "_sample_{}", "PDF": "_random_pdf_{}"}  # what a macro whose name has this word makes of a name


def registered(path: Path) -> set[str]:
    """Names of the operators that a source file registers, and what else they are called.

    One that it only tells which quantized operator stands in for it is registered elsewhere.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    found = set()
    places = list(REGISTERED.finditer(text))
    ends = [place.start() for place in places[1:]] + [len(text)]
    for place, end in zip(places, ends, strict=False):
        macro, name = place.groups()
        body = text[place.end() : end]
        if "FQuantizedOp" in body and "FCompute" not in body:
            continue
        found.add(next((made for word, made in NAMED.items() if word in macro), "{}").format(name))
    return found | {one or other for one, other in ALIASES.findall(text)}


def ran(document: Mapping[str, object]) -> dict[str, set[str]]:
    """Operator as the profiler names it -> cases that ran it."""
    found: dict[str, set[str]] = defaultdict(set)
    for case in document["cases"]:  # type: ignore[attr-defined]
        for name in case["operators"] or ():
            found[name].add(case["case"])
    return found


def omissions(source: Path, cases: Mapping[str, set[str]]) -> Iterator[tuple[str, str, set[str]]]:
    """File, operator, and the cases that ran it though no rule says so."""
    framework = get_framework("mxnet")
    data = load_touched(framework)
    assert data is not None
    known = {case.id: case for case in expand_cases(load_spec(find_spec("all")))}
    for path in sorted((source / "src").rglob("*.cc")):
        name = str(path.relative_to(source))
        touched = touched_by([name], data)
        if touched.everything:
            continue
        of_categories = operators_of(touched)
        for operator in sorted(registered(path)):
            left = {id for id in cases.get(operator, ()) if not is_touched(known[id], touched, of_categories)}
            if left:
                yield name, operator, left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("profiled", type=Path, help="what harness.py --profiler native wrote")
    parser.add_argument("--source", type=Path, required=True, help="a checkout of the framework")
    options = parser.parse_args()
    cases = ran(json.loads(options.profiled.read_text(encoding="utf-8")))
    print(f"{len(cases)} operators ran in {len(set().union(*cases.values()))} cases")
    found = list(omissions(options.source, cases))
    for name, operator, left in found:
        print(f"{name}: {operator}: {len(left)} cases, such as {', '.join(sorted(left)[:4])}")
    print(f"{len(found)} omissions")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
