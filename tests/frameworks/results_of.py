"""Run in a build: write what each case computes to a folder; return what was written, and the digests of its inputs."""

import os

from build_script import adaptor, answer_each


def answer(question):
    case, folder, limit = question
    os.makedirs(folder)
    return adaptor.results(case, 1, folder, limit), [adaptor.digest(case, seed) for seed in (1, 1, 2)]


answer_each(answer)
