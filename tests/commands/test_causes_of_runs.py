"""Every run of a command looks for causes, on this host or on the hosts of a fleet."""

import pickle
from pathlib import Path

from opduel.causes import find_causes
from opduel.commands.options import read_options
from opduel.commands.session import plan_session
from opduel.fleet.job import Job
from opduel.records import Build

BUILD = Build("a", "a", "interpreter", "/a/bin/python", "1.0", "3.11", "digest")


def test_a_command_s_request_finds_causes_and_brings_that_to_the_hosts_of_a_fleet(tmp_path: Path) -> None:
    options = read_options(["-b", "smoke", "--local_reporter", str(tmp_path)])
    request = plan_session(options, {}, []).request(BUILD, BUILD)
    assert request.find_causes is find_causes
    job = Job("run", "1", request)
    assert pickle.loads(pickle.dumps(job)).request.find_causes is find_causes
