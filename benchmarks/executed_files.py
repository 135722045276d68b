"""Runs inside a build: which Python files of the framework a call of each case executes. Standard library only.

Arguments: the adaptor's folder, the framework's name, a file with cases as JSON by id, a file for the answer. Each case
runs in a child of its own, and has some seconds.
"""

import importlib.util
import json
import os
import signal
import sys

SECONDS = 20


def load(folder):
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(folder)), "common"))
    spec = importlib.util.spec_from_file_location(
        "opduel_adaptor", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    adaptor = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = adaptor
    spec.loader.exec_module(adaptor)
    return adaptor


def files_of(adaptor, case, package):
    """Files below the package's folder whose code runs in the second call, relative to the folder."""
    call = adaptor.make_call(case, 1)
    call()
    found = set()

    def note(frame, event, _):
        if event == "call":
            found.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return sorted(os.path.relpath(path, package) for path in found if path.startswith(package + os.sep))


def main(folder, name, cases, answer):
    adaptor = load(folder)
    package = os.path.dirname(os.path.abspath(sys.modules[name].__file__))
    with open(cases) as stream:
        asked = json.load(stream)
    found = {}
    for id, case in asked.items():
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.alarm(SECONDS)
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            try:
                os.write(writer, json.dumps(files_of(adaptor, case, package)).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            said = stream.read()
        os.waitpid(pid, 0)
        if said:
            found[id] = json.loads(said)
    with open(answer, "w") as stream:
        json.dump(found, stream)


if __name__ == "__main__":
    main(*sys.argv[1:])
