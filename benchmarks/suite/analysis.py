"""Statistics: what is computed between two rounds, and at the end of a run."""

from .simulated_run import simulated_run

RUN = simulated_run(1_000)


def time_interim_of_1000_cases() -> None:
    RUN.interim()


def time_comparisons_of_1000_cases() -> None:
    RUN.comparisons()
