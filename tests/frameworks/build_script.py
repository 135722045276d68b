"""What scripts share that run in a build: the adaptor, whose folder is the first argument, and how they answer."""

import json
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.argv[1])), "common"))
import adaptor

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
