"""Do the rules of touched.yaml name every case that a changed file can touch?

    .venv/bin/python harness.py -b all --treatment mxnet==1.9.1 --profiler native --rounds 1 --output-file profiled.json
    .venv/bin/python -m benchmarks.touched mxnet==1.9.1 --profiled profiled.json --source CHECKOUT

Native files: of each that a rule is about, the operators that it registers are looked for among those that the profiler
saw run, case by case. Python files: each case is called once with Python's own profiler on, which sees the files whose
code runs. A case that ran a file's operator or code, and that the file's rule doesn't name, is printed. None may be.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from opduel.commands.local import is_affected, operators_of
from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.builds.repository_data import load_repository_data
from opduel.driver.change_impact import impact_of, load_impact_rules
from opduel.frameworks import Framework, get_framework, worker_environment
from opduel.harness.case_request import CaseRequest
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import Case

INSIDE = Path(__file__).with_name("executed_files.py")
REGISTERED = re.compile(r"\b(NNVM_REGISTER_OP|MXNET_\w*REGISTER\w*)\s*\(\s*(\w+)")
ALIASES = re.compile(r'\.?add_alias\("(\w+)"\)|MXNET_ADD_SPARSE_OP_ALIAS\((\w+)\)')
NAMED = {"SAMPL": "_sample_{}", "PDF": "_random_pdf_{}"}  # what a macro whose name has this word makes of a name

Cases = Mapping[str, set[str]]  # of what ran -> ids of the cases that ran it


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


def ran(document: Mapping[str, Any], source: Path) -> Cases:
    """Native file, relative to the checkout -> cases that ran an operator that it registers."""
    operators: dict[str, set[str]] = defaultdict(set)
    for case in document["cases"]:
        for name in case["operators"] or ():
            operators[name].add(case["case"])
    print(f"{len(operators)} operators ran in {len(set().union(*operators.values()))} cases")
    return {
        str(path.relative_to(source)): set().union(*(operators.get(name, set()) for name in registered(path)))
        for path in sorted((source / "src").rglob("*.cc"))
    }


def executed(build: str, framework: Framework, cases: Mapping[str, Case]) -> Cases:
    """Python file, relative to the repository -> cases whose call executes code in it."""
    made = resolve_build(build, framework, BuildCache())
    package = load_repository_data(framework).package
    asked = {id: CaseRequest(case, 1).description() for id, case in cases.items()}
    with tempfile.TemporaryDirectory() as folder:
        questions, answers = Path(folder) / "cases.json", Path(folder) / "answers.json"
        questions.write_text(json.dumps(asked))
        environment = {**os.environ, **worker_environment(), **framework.environment(1), **made.environment}
        command = [made.interpreter, str(INSIDE), str(framework.adaptor), framework.import_name]
        subprocess.run([*command, str(questions), str(answers)], env=environment, cwd=folder, check=True)
        told = json.loads(answers.read_text())
    found: dict[str, set[str]] = defaultdict(set)
    for id, paths in told.items():
        for path in paths:
            found[f"{package}/{path}"].add(id)
    print(f"{len(found)} Python files ran in {len(told)} of {len(cases)} cases")
    return found


def omissions(framework: Framework, cases: Mapping[str, Case], ran_by: Cases) -> Iterator[tuple[str, set[str]]]:
    """Files, and the cases that ran them though their rule doesn't say so."""
    data = load_impact_rules(framework)
    assert data is not None
    for path, ids in sorted(ran_by.items()):
        touched = impact_of([path], data)
        of_categories = operators_of(touched)
        left = {id for id in ids if not is_affected(cases[id], touched, of_categories)}
        if left and not touched.everything:
            yield path, left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("build", help="whose Python files are looked at")
    parser.add_argument("--profiled", type=Path, help="what harness.py --profiler native wrote")
    parser.add_argument("--source", type=Path, help="a checkout of the framework; for --profiled")
    options = parser.parse_args()
    spec = load_spec(find_spec("all"))
    framework = get_framework(spec.framework)
    cases = {case.id: case for case in expand_cases(spec)}
    found = []
    if options.profiled:
        document = json.loads(options.profiled.read_text(encoding="utf-8"))
        found += omissions(framework, cases, ran(document, options.source))
    found += omissions(framework, cases, executed(options.build, framework, cases))
    for path, left in found:
        operators = sorted({cases[id].operator for id in left})
        print(f"{path}: {len(left)} cases of {', '.join(operators[:6])}{', ...' if len(operators) > 6 else ''}")
    print(f"{len(found)} omissions")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
