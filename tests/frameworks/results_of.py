"""Run in a build: write what cases compute. Arguments: cases as JSON by name, a folder, a limit in bytes."""

import importlib.util
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "frameworks", "mxnet", "adaptor")
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(PACKAGE)), "common"))
spec = importlib.util.spec_from_file_location(
    "opduel_adaptor", os.path.join(PACKAGE, "__init__.py"), submodule_search_locations=[PACKAGE]
)
adaptor = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = adaptor
spec.loader.exec_module(adaptor)

folder, limit, entries_by_case, digests = sys.argv[2], int(sys.argv[3]), {}, {}
for name, case in json.loads(sys.argv[1]).items():
    os.makedirs(os.path.join(folder, name))
    entries_by_case[name] = adaptor.results(case, 1, os.path.join(folder, name), limit)
    digests[name] = [adaptor.digest(case, seed) for seed in (1, 1, 2)]
with open(os.path.join(folder, "found.json"), "w") as stream:
    json.dump(entries_by_case, stream)
with open(os.path.join(folder, "digests.json"), "w") as stream:
    json.dump(digests, stream)
