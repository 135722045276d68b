"""What scripts that run in a build share: the adaptor, at the path in the first argument, and how they answer.

Run by itself it imports the adaptor once, and forks a process for each script that it is sent: see build_oracle.py.
"""

import json
import os
import random
import runpy
import signal
import socket
import sys
import traceback

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.argv[1])), "common"))
import adaptor

THREADS = len(os.listdir("/proc/self/task"))  # after the import
LIMIT_S = 60


def answer_each(answer):
    """Print what ``answer`` returns for each line on standard input, as JSON."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the framework prints is no answer
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=stream, flush=True)
    os._exit(0)


def in_child(compute, *arguments):
    """Return what ``compute`` returns in a process of its own, or ``{"died": status}``; an exception is an "error"."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        signal.alarm(LIMIT_S)
        try:
            answer = compute(*arguments)
        except Exception as error:
            answer = {"error": adaptor.key_line(str(error) or repr(error))}
        with os.fdopen(writing, "w") as stream:
            json.dump(answer, stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    status = os.waitpid(pid, 0)[1]
    return json.loads(text) if text and status == 0 else {"died": status}


def serve(requests):
    """Fork a process for each script whose path comes, with its three standard streams, until the connection ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for these processes
    while True:
        path, streams, *_ = socket.recv_fds(requests, 4096, 3)
        if not path:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            run_script(path.decode(), streams)
        for stream in streams:
            os.close(stream)


def run_script(path, streams):
    """Run the script in this process, which has drawn no random numbers in common with others; it does not return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    try:
        runpy.run_path(path, run_name="__main__")
    except BaseException:
        traceback.print_exc()
    os._exit(1)


if __name__ == "__main__":
    sys.modules["build_script"] = sys.modules["__main__"]
    serve(socket.socket(fileno=int(sys.argv[2])))
