"""Asks what a call takes from the machine on either side: page faults, context switches, and where its time goes."""

from opduel.causes.collectors.process_pairs import Answers, Question
from opduel.records.cause import Observation, Part
from opduel.records.measurement import SIDES

QUESTION = Question("resources", work_ns=100_000_000, most=200_000)
TIME = "time"  # its parts, in ns, are those of the calling thread: user code, kernel, waiting
NOTHING = 0.01  # a call: a resource of which neither side takes more in any pair is left out
NOTE = (
    "time without what other processes had of the processor; counts are those of the process; the kernel's share of "
    "the time may be sampled"
)


def unit_of(resource: str) -> str:
    """Return the unit of what ``resource_observations`` has under this name."""
    return "ns" if resource == TIME else "count"


def resource_observations(answers: Answers) -> dict[str, list[Observation]]:
    """Return for each resource an observation for each process pair. Resources don't add up to a whole, so that each
    count has one part of the same name; ``TIME`` has three parts, which add up to the call. Raises UnansweredError."""
    pairs = answers.about(QUESTION.op)
    observations: dict[str, list[Observation]] = {
        TIME: [{side: {name: Part(ns) for name, ns in pair[side][TIME].items()} for side in SIDES} for pair in pairs]
    }
    for name in pairs[0]["control"]["counts"]:
        if any(pair[side]["counts"][name] > NOTHING for pair in pairs for side in SIDES):
            observations[name] = [{side: {name: Part(pair[side]["counts"][name])} for side in SIDES} for pair in pairs]
    return observations
