"""counting.py with a stand-in for valgrind: it counts the calls of the toy's work by their turns, and nothing else."""

import importlib.util
import os
import sys

import toy_adaptor  # found by PYTHONPATH: the module that the stand-in watches is the one that the worker loads


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Stub:
    """Counts turns of ``toy_adaptor.work`` once it is started; a process adds some noise of its own if asked to."""

    def __init__(self):
        self.turns = self.dumps = 0
        self.started = False

    def start(self):
        self.started = True
        inner = toy_adaptor.work

        def work(turns):
            self.turns += turns
            return inner(turns)

        toy_adaptor.work = work

    def toggle(self):
        """Turns are counted all the time, and this adds some."""
        self.turns += 7

    def dump(self):
        path = "{}.{}.{}".format(os.environ["OPDUEL_COUNTS"], os.getpid(), self.dumps)
        self.dumps += 1
        count = self.count()
        total = count + 1 if os.environ.get("TOY_COUNTS") == "garbled" else count
        with open(path, "w") as stream:
            stream.write(f"events: Ir\nob=/lib/libtoy.so\nfl=toy.c\nfn=work\n7 {count}\ntotals: {total}\n")
        return path

    def count(self):
        if not self.started:
            raise ValueError("counted before it was started")
        turns, self.turns = self.turns, 0
        return 0 if os.environ.get("TOY_COUNTS") == "nothing" else turns


if __name__ == "__main__":
    counting = load(os.environ["TOY_COUNTING"], "counting")
    main = load(os.path.join(os.path.dirname(os.environ["TOY_COUNTING"]), "main.py"), "main")
    counting.Valgrind = Stub
    main.load_adaptor = lambda path: toy_adaptor
    main.main(counting.CountingSession)
    sys.exit(0)
