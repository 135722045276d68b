"""Run PyTorch's adaptor inside a build. Arguments: a list of cases, and one case, as JSON; prints JSON.

Of each case: its results as lists, the digests of seeds 1, 1 and 2, memory, and the operators of its profile; or the
error as the worker sends it. Of the first, also the profile of two calls that are recorded together. Of the single
case, which runs first: the modules that it imports. One process runs all, since importing PyTorch takes long.
"""

import importlib.util
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FRAMEWORKS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "frameworks")
PACKAGE = os.path.join(FRAMEWORKS, "torch", "adaptor")
sys.path.append(os.path.join(FRAMEWORKS, "common"))
spec = importlib.util.spec_from_file_location(
    "opduel_adaptor", os.path.join(PACKAGE, "__init__.py"), submodule_search_locations=[PACKAGE]
)
adaptor = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = adaptor
spec.loader.exec_module(adaptor)
import numpy  # noqa: E402
import torch  # noqa: E402


def values(folder, entry):
    return numpy.fromfile(os.path.join(folder, entry["file"]), entry["dtype"]).reshape(entry["shape"]).tolist()


def describe(case):
    with tempfile.TemporaryDirectory() as folder:
        entries = adaptor.results(case, 1, folder, 1 << 20)
        results = {
            entry["name"]: {
                "dtype": entry["dtype"],
                "precision": entry.get("precision", ""),
                "values": values(folder, entry),
            }
            for entry in entries
        }
    call = adaptor.make_call(case, 1)
    call()
    call()
    operators = sorted(adaptor.profile(call, 1)[0]["operators"])
    digests = [adaptor.digest(case, seed) for seed in (1, 1, 2)]
    return {"results": results, "digests": digests, "memory": adaptor.memory(case, 1, 3), "operators": operators}


before = set(sys.modules)
adaptor.make_call(json.loads(sys.argv[2]), 1)()
imported = sorted(set(sys.modules) - before)
answer = []
for case in json.loads(sys.argv[1]):
    try:
        answer.append(describe(case))
    except Exception as error:
        answer.append({"kind": getattr(error, "kind", "error"), "error": adaptor.key_line(str(error))})
with tempfile.TemporaryDirectory() as folder:
    adaptor.write_profile(adaptor.make_call(json.loads(sys.argv[1])[0], 1), 2, folder, "one")
    files = sorted(os.listdir(folder))
call_profiles = adaptor.profiler.profile_together(
    adaptor.make_call(json.loads(sys.argv[1])[0], 1), 2, torch.device("cpu")
)


class Event:
    """An event of a recording on a GPU: ranges are on both devices, on the GPU around their kernels."""

    def __init__(self, name, start, own, gpu=False):
        self.name, self.time_range = name, torch.autograd.profiler_util.Interval(start, start + own)
        self.device_type = torch.autograd.DeviceType.CUDA if gpu else torch.autograd.DeviceType.CPU
        self.self_cpu_time_total, self.self_device_time_total = (0, own) if gpu else (own, 0)
        self.self_cuda_time_total = self.self_device_time_total


class Recording:
    def events(self):
        events = []
        for start in range(0, 500, 100):
            events += [Event("opduel call", start, 90), Event("opduel call", start + 1, 80, gpu=True)]
            events += [Event("a range", start + 2, 5), Event("a range", start + 3, 70, gpu=True)]
            events += [Event("aten::add", start + 4, 9), Event("aten::view", start + 5, 0)]
            events += [Event("add_kernel", start + 6, 30, gpu=True), Event("add_kernel", start + 40, 20, gpu=True)]
        return events


original_record, adaptor.profiler.record = adaptor.profiler.record, lambda run: Recording()
on_gpu = adaptor.profiler.profile_together(None, 2, torch.device("cpu"))
adaptor.profiler.record = original_record
memory_error = adaptor.key_line(
    "CUDA out of memory. Tried to allocate 596.05 GiB. GPU 0 has a total capacity of 79.18 GiB"
)
process_state = {
    "threads": torch.get_num_threads(),
    "files": files,
    "imported": imported,
    "out of memory": memory_error,
}
print(json.dumps({"cases": answer, "together": call_profiles, "on GPU": on_gpu, **process_state}))
