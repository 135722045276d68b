"""AI-PEP's options: what works on a host works, and each of the others is one line that says what to do instead."""

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Outcome, write_spec

from opduel.commands.ai_pep import FRAMEWORKS, IGNORED, NOT_TAKEN, of_one_build
from opduel.commands.builds import library_path
from opduel.commands.case_selection import Choice, choose_cases, fetch_case_files, framework_of
from opduel.commands.driver_options import driver_parser, parse_driver_options
from opduel.commands.fleet_options import fleet_parser
from opduel.commands.options import harness_parser, read_options
from opduel.commands.run_bench import run_bench_parser
from opduel.harness.specs import find_spec, load_spec
from opduel.records import ModelFile, UsageError

Run = Callable[..., Outcome]

# All of AI-PEP's README: harness.py, run_bench.py, repo_driver.py.
AI_PEP = """
--android_dir --backend -b --benchmark_file -d --devices --excluded_devices --framework --info --local_reporter
--simple_local_reporter --model_cache --device -p --platform --platform_sig --wipe_cache --program --reboot
--regressed_types --remote_reporter --remote_access_token --root_model_dir --run_type --screen_reporter
--simple_screen_reporter --set_freq --shared_libs --timeout --user_identifier
--reset_options
--ab_testing --base_commit --branch --commit --commit_file --exec_dir --frameworks_dir --interval --platforms
--regression --remote_repository --repo --repo_dir --same_host --status_file --step
"""
REFUSED = [name for names in NOT_TAKEN for name in names]


def test_every_option_of_ai_pep_is_known() -> None:
    parsers = harness_parser(), driver_parser(), run_bench_parser()
    option_strings = {name for parser in parsers for action in parser._actions for name in action.option_strings}
    assert set(AI_PEP.split()) <= option_strings


@pytest.mark.parametrize("option", REFUSED)
def test_what_is_not_taken_is_one_line_that_says_what_to_do(run: Run, option: str) -> None:
    for arguments in ((option,), (option, "x"), (f"{option}=x",) if option.startswith("--") else (option,)):
        line = run("-b", "smoke", *arguments).error_line()
        assert line.startswith(f"harness.py: error: {option}: ")
        assert re.search(r"\b(use|leave it out|set|change|needs|chooses)\b", line)


def test_what_changes_nothing_here_is_ignored_and_said(caplog: pytest.LogCaptureFixture) -> None:
    for option in (name for names in IGNORED for name in names):
        assert read_options(["-b", "smoke", option, "1", "--seed", "7"]).seed == 7
        assert re.search(rf"^{option}: .*: ignored$", caplog.messages[-1])


def test_phones_are_refused(run: Run) -> None:
    for name in ("android", "ios", "host,android/arm64"):
        line = run("-b", "smoke", "-p", name).error_line()
        assert "is a phone: opduel measures on this host, and others: use host" in line
        with pytest.raises(UsageError, match="is a phone"):
            parse_driver_options(["--ab_testing", "-b", "smoke", "--platforms", name])


def test_env_takes_several_variables(run: Run) -> None:
    options = read_options(["--env", "A=1", "B=2 3", "-b", "smoke", "--env", "C=4"])
    assert options.variables == {"A": "1", "B": "2 3", "C": "4"}
    assert parse_driver_options(["--env", "A=1", "B=2", "--ab_testing", "-b", "smoke"]).harness.variables == {
        "A": "1",
        "B": "2",
    }
    assert "'B' has no =: write NAME=VALUE" in run("-b", "smoke", "--env", "A=1", "B").error_line()


def test_a_treatment_alone_is_one_build() -> None:
    info = json.dumps({"treatment": {"programs": {"program": {"location": "/new"}}}})
    alone = of_one_build(read_options(["-b", "smoke", "--info", info]))
    assert (alone.single, alone.treatment, alone.info) == (True, "/new", None)
    both = of_one_build(read_options(["-b", "smoke", "--info", info, "--control", "/old"]))
    assert (both.single, both.treatment, both.control) == (False, "/new", "/old")


def test_frameworks_of_ai_pep_are_programs(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"framework": "generic", "tests": [{"command": "{program}"}]}')
    for name in FRAMEWORKS:
        options = read_options(["-b", str(tmp_path / "own.json"), "--framework", name])
        framework = framework_of(options, choose_cases(options, 0), tmp_path)
        assert (framework.name, framework.specifications) == ("generic", tmp_path / name)
    with pytest.raises(UsageError, match="--framework caffe2: the spec is for mxnet"):
        framework_of(read_options(["--framework", "caffe2"]), chosen(), tmp_path)


def test_the_driver_says_the_same() -> None:
    with pytest.raises(UsageError, match=r"^--reboot: is decided on each host: use opduel fleet worker --before_run"):
        parse_driver_options(["--ab_testing", "-b", "smoke", "--reboot"])
    assert parse_driver_options(["--ab_testing", "-b", "smoke", "--repo", "git"]).own.repo == "git"
    with pytest.raises(UsageError, match=r"--repo: 'svn': git and hg \(Mercurial\) are supported"):
        parse_driver_options(["--ab_testing", "-b", "smoke", "--repo", "svn"])
    assert parse_driver_options(["--ab_testing", "-b", "smoke", "--repo", "hg"]).own.repo == "hg"
    with pytest.raises(UsageError, match=r"--repo_dir: works with git: with --repo hg, name the repository with"):
        parse_driver_options(["--ab_testing", "-b", "smoke", "--repo", "hg", "--repo_dir", "."])


def test_what_is_named_instead_is_there() -> None:
    option_strings = {
        name
        for parser in (harness_parser(), driver_parser(), run_bench_parser())
        for action in parser._actions
        for name in action.option_strings
    }
    kinds = next(action for action in fleet_parser()._actions if isinstance(action, argparse._SubParsersAction))
    for why in NOT_TAKEN.values():
        ours, _, workers = why.partition("opduel fleet worker")
        assert set(re.findall(r"--\w+", ours)) <= option_strings - set(REFUSED)
        assert set(re.findall(r"--\w+", workers)) <= set(kinds.choices["worker"]._option_string_actions)


def test_those_not_taken_are_not_in_the_help() -> None:
    help = harness_parser().format_help()
    assert not any(re.search(rf"^\s+{name}\b", help, flags=re.MULTILINE) for name in REFUSED)


def chosen(*arguments: str) -> Choice:
    return choose_cases(read_options(["-b", "smoke", *arguments]), 0)


def test_regressed_types_are_the_cases_that_are_measured() -> None:
    all_ids = [case.id for case in chosen().cases]
    chosen_ids = [all_ids[3], all_ids[1]]
    assert [case.id for case in chosen("--regressed_types", json.dumps(chosen_ids)).cases] == [all_ids[1], all_ids[3]]
    with pytest.raises(UsageError, match=rf"there is no case '{chosen_ids[0]}x': did you mean {chosen_ids[0]}\?"):
        chosen("--regressed_types", json.dumps([f"{chosen_ids[0]}x"]))
    for text in ("", "[]", "[1]", '["a", ""]', '{"a": 1}', "a", "[" * 100_000):
        with pytest.raises(UsageError, match=r"is not a JSON list of case ids"):
            chosen("--regressed_types", text)


def test_regressed_types_belong_to_a_regress_run(run: Run) -> None:
    line = run("-b", "smoke", "--regressed_types", '["dot/forward"]', "--run_type", "verify").error_line()
    assert "--regressed_types: belongs to --run_type regress, not verify" in line


def test_wipe_cache_takes_ai_pep_s_words() -> None:
    def wipes(*arguments: str) -> bool:
        return bool(read_options(["-b", "smoke", *arguments]).wipe_cache)

    assert not wipes()
    assert all(wipes("--wipe_cache", *words) for words in ([], ["true"], ["True"], ["1"], ["yes"]))
    assert not any(wipes("--wipe_cache", word) for word in ("false", "0", "no", "off"))
    with pytest.raises(UsageError, match=r"'maybe' is neither true nor false"):
        wipes("--wipe_cache", "maybe")


def test_a_location_with_two_slashes_is_below_the_root_of_models(tmp_path: Path) -> None:
    symbol = tmp_path / "nets" / "net-symbol.json"
    symbol.parent.mkdir()
    symbol.write_text("{}")
    options = read_options(["-b", "smoke", "--model_cache", str(tmp_path / "cache")])
    spec = load_spec(find_spec("smoke"))
    file = ModelFile(
        "//nets/net-symbol.json", sha256="44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )
    case = replace(chosen().cases[0], files={"symbol": file})
    with pytest.raises(UsageError, match=r"//nets/net-symbol.json is relative to .*: give it with --root_model_dir"):
        fetch_case_files(Choice(spec, None, [case]), options)
    options = read_options(["-b", "smoke", "--model_cache", str(tmp_path / "cache"), "--root_model_dir", str(tmp_path)])
    (fetched,) = fetch_case_files(Choice(spec, None, [case]), options)
    assert Path(str(fetched.files["symbol"].path)).read_text() == "{}"
    assert fetched.files["symbol"].location == str(symbol)


def test_a_root_that_is_no_folder(run: Run, tmp_path: Path) -> None:
    line = run("-b", "smoke", "--root_model_dir", str(tmp_path / "gone")).error_line()
    assert f"--root_model_dir: '{tmp_path / 'gone'}' is not a folder" in line


def test_the_folders_of_shared_libraries_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/theirs")
    first, second = tmp_path / "a" / "libone.so", tmp_path / "a" / "libtwo.so.1"
    first.parent.mkdir()
    first.touch()
    second.touch()
    libraries = read_options(["-b", "smoke", "--shared_libs", f"{first}, {second}"]).shared_libs
    assert library_path(libraries) == {"LD_LIBRARY_PATH": f"{tmp_path / 'a'}:/theirs"}
    assert library_path([]) == {}
    with pytest.raises(UsageError, match=r"'/no/lib.so' is not a file: give paths of shared libraries"):
        read_options(["--shared_libs", "/no/lib.so"])


def test_releases_take_no_shared_libraries(run: Run, tmp_path: Path) -> None:
    (tmp_path / "libx.so").touch()
    both = "--control", "mxnet==1.9.1", "--treatment", "mxnet==1.9.1"
    for builds in (both, both[2:]):
        refused = run("-b", write_spec(tmp_path), *builds, "--shared_libs", str(tmp_path / "libx.so"))
        assert refused.code == 2
        assert "--shared_libs: a release has its own libraries" in refused.err.splitlines()[-1]
