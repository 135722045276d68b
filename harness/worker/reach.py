"""Which functions of a build a case runs: its preparation, its calls, and what was imported before; in all threads.

Python 3.12 and later report each function once (sys.monitoring).  Earlier ones call a trace hook for each call, which
sees the threads that ``threading`` starts.  Code in C isn't seen, but that its module is imported.  Standard library
and Python 3.6 syntax only, as main.py.
"""

import contextlib
import os
import resource
import sys
import threading

from opduel_serving import Unseen

NAME, TOOL = "opduel", 4  # of the numbers 0 to 5, one that is reserved for no other kind of tool


class Unrecorded(Unseen):
    """The case runs, but what of the build can't be seen."""

    kind = "unseen"


class Recorder:
    """Remembers the code of all functions that run from now on."""

    calls = 2  # of a case: the second may take another way, through a cache

    def __init__(self):
        self.codes = {}  # by identity: the codes of two files may be equal
        self.monitoring = getattr(sys, "monitoring", None)
        if self.monitoring:
            events = self.monitoring.events
            self.monitoring.use_tool_id(TOOL, NAME)
            for event in (events.PY_START, events.PY_RESUME):
                self.monitoring.register_callback(TOOL, event, self.started)
            self.monitoring.set_events(TOOL, events.PY_START | events.PY_RESUME)
        else:
            threading.settrace(self.traced)
            sys.settrace(self.traced)

    def started(self, code, _):
        self.codes[id(code)] = code
        return self.monitoring.DISABLE

    def traced(self, frame, *_):
        self.codes[id(frame.f_code)] = frame.f_code

    def take(self):
        """Return the codes so far, and begin again."""
        codes, self.codes = self.codes, {}
        if self.monitoring:
            self.monitoring.restart_events()
        return list(codes.values())

    def reach(self, run, imported, root):
        """Return what was reached since the codes ``imported`` were taken, ``run()`` included, below the folder
        ``root``: main.py says what. Raise Unrecorded, and what it raises."""
        run()
        functions = self.take()
        is_on = self.monitoring.get_tool(TOOL) == NAME if self.monitoring else sys.gettrace() == self.traced
        if not is_on:
            raise Unrecorded("it sets a trace hook of its own")
        if has_children():
            raise Unrecorded("it starts processes")
        return {
            "functions": functions_below(root, functions),
            "imported": functions_below(root, imported),
            "modules": sorted(path for path in set(paths_below(root, files_of_modules()).values()) if path),
        }


def paths_below(root, files):
    """Return the path of each file below the folder, by the file; None of one that isn't there."""
    folder = os.path.join(os.path.realpath(root), "")
    reals = {file: os.path.realpath(file) for file in set(files)}
    return {file: real[len(folder) :] if real.startswith(folder) else None for file, real in reals.items()}


def functions_below(root, codes):
    """Return ``path:line`` of the codes in the folder, where each begins."""
    paths = paths_below(root, [code.co_filename for code in codes])
    places = {(paths[code.co_filename], code.co_firstlineno) for code in codes}
    return sorted("{}:{}".format(path, line) for path, line in places if path)


def files_of_modules():
    """Yield the file of each imported module that has one."""
    for module in list(sys.modules.values()):
        with contextlib.suppress(AttributeError, TypeError):
            names = object.__getattribute__(module, "__dict__")  # a lazy module would be imported by getattr
            if isinstance(names.get("__file__"), str):
                yield names["__file__"]


def has_children():
    """Tell whether this process has, or has had, child processes."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
        return True
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0
