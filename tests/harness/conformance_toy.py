"""A worker-side adaptor that keeps all that the harness relies on, or breaks one of it: ``TOY_BROKEN`` says which."""

import array
import atexit
import hashlib
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time

BROKEN = os.environ.get("TOY_BROKEN", "")
SIDE = os.environ.get("TOY_SIDE", "")
STARTED = time.time()

if BROKEN == "dies at import on one side" and SIDE == "treatment":
    sys.exit("no such library")
if BROKEN == "changes the environment":
    os.environ["TOY_THREADS"] = "8"
if BROKEN == "ignores signals":
    signal.signal(signal.SIGSEGV, signal.SIG_IGN)
if BROKEN == "closes stdout":
    sys.stdout.close()
if BROKEN == "starts threads":
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()

JOBS, DONE = queue.Queue(), queue.Queue()
if BROKEN == "needs its thread":

    def work_off():
        while True:
            DONE.put(JOBS.get()())

    threading.Thread(target=work_off, daemon=True).start()


class MissingOperator(Exception):
    kind = "error" if BROKEN == "calls missing an error" else "missing"


def versions():
    return {"framework": "1.0" if BROKEN != "other versions each time" else str(STARTED)}


def values(case, seed):
    key = "{}|{}".format(seed, case["id"])
    if BROKEN == "other inputs on one side":
        key += SIDE
    if BROKEN == "other inputs in each process":
        key += str(os.getpid())
    if BROKEN == "ignores the seed":
        key = case["id"]
    generator = random.Random(key)
    return [generator.random() for _ in range(int(case["inputs"].get("size", 8)))]


def check(case):
    if case["operator"] != "toy.sum":
        if BROKEN == "exits when it refuses":
            sys.exit(1)
        raise MissingOperator("there is no " + case["operator"])
    if set(case["inputs"]) - {"size"} and BROKEN != "takes any argument":
        raise ValueError("there is no such argument")
    if case["direction"] != "forward" and BROKEN not in ("ignores the direction", "crashes when it refuses"):
        raise ValueError("there is no " + case["direction"])
    if case["direction"] != "forward" and BROKEN == "crashes when it refuses":
        os.abort()


def make_call(case, seed):
    check(case)
    if BROKEN == "leaves a process":
        subprocess.Popen(["sleep", "30"], start_new_session=True)
    if BROKEN == "gives up by itself":
        signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(ValueError("took too long")))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
    if BROKEN == "has no calls":
        return None
    numbers = values(case, seed)

    def call():
        if BROKEN == "needs its thread":
            JOBS.put(lambda: sum(numbers))
            return DONE.get()
        return sum(sorted(numbers))

    return call


def results(case, seed, folder, limit):
    check(case)
    numbers = [sum(values(case, seed)), *values(case, seed)]
    if BROKEN == "other outputs in each process":
        numbers[0] = os.getpid()
    if BROKEN == "other outputs in a fork" and os.getppid() != int(os.environ["TOY_CONTROLLER"]):
        numbers[0] += 1
    if BROKEN == "computes nothing":
        numbers = [0.0] * len(numbers)
    if BROKEN == "prints its outputs":
        print("\xb9 of", len(numbers))
        with open("/proc/self/fd/1", "rb") as printed:  # what a tool that it starts has printed, say
            numbers[0] += len(printed.read())
    written = numbers if BROKEN == "ignores the limit" else numbers[: max(1, limit // 8)]
    with open(os.path.join(folder, "0.bin"), "wb") as stream:
        array.array("f" if BROKEN == "writes another dtype" else "d", written).tofile(stream)
    description = {"name": "output", "dtype": "<f8", "shape": [len(numbers)], "storage": "default", "file": "0.bin"}
    return [dict(description, count=len(written))] * (2 if BROKEN == "names two outputs alike" else 1)


def digest(case, seed):
    return hashlib.sha256(repr(values(case, seed)).encode("utf-8")).hexdigest()


def memory(case, seed, calls):
    return {"cpu": -1 if BROKEN == "negative memory" else 8 * len(values(case, seed))}


atexit.register(lambda: None)
