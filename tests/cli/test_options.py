"""Options of the command line are made from the settings, and checked where settings are built."""

import re

import pytest

from commands import is_one_line, run_stmg
from stmg.cli import VERBS
from stmg.cli.options import OF_CHECKPOINTS, OF_EXPORTS, OF_GRAPHS, format_options, make_spec
from stmg.errors import SettingsError
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.streaming.settings import MODEL, STREAM, settings_for

GIVEN = {
    "network": "nets.py:build",
    "normalize": "none",
    "threshold": "0.4",
    "corrector": "my corrector",
    "runtime": "onnxruntime",
}


def options_in(help_text):
    return {word for word in help_text.replace("│", " ").replace(",", " ").split() if word.startswith("--")}


def test_the_eight_options_that_people_use_are_in_the_help_and_the_rest_in_all_of_it():
    short, whole = (run_stmg("segment", flag, columns=80).stdout for flag in ("--help", "--help-all"))
    common = {"--model", "--out", "--save", "--size", "--limit", "--mode", "--max-change", "--device"}
    named = {line.split()[-1] for text in re.findall(r"^│ .  --\S+", short, re.MULTILINE) for line in [text]}
    assert {name.partition(",")[0] for name in named} == common | {"--help", "--help-all"}
    assert common <= options_in(short)
    every = {f"--{name.replace('_', '-')}" for name in settings_for(STREAM, MODEL)}
    assert every <= options_in(whole)
    assert len(short.splitlines()) < 70
    for text in (short, whole):
        assert max(map(len, text.splitlines())) <= 80
        assert "…" not in text
    assert run_stmg("segment", "--help", columns=80).stdout == short  # what was shown once stays hidden


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_without_a_short_help_lists_what_it_has(verb):
    done = run_stmg(verb, "--help", columns=80)
    assert done.returncode == 0
    if "--help-all" in done.stdout:
        whole = run_stmg(verb, "--help-all", columns=80).stdout
        assert options_in(done.stdout) < options_in(whole)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--max-change", "200%", "max_change is a share between 0 and 1, such as 2% or 0.02; got '200%'"),
        ("--fusion", "one", "fusion is at least 0 and below 1; got 'one'"),
        ("--size", "big", "size is HEIGHTxWIDTH, such as 360x480; got 'big'"),
        ("--threads", "0", "threads is from 1 to"),
        ("--runtime", "tflow", "runtime is one of torch, onnxruntime, openvino, litert; got 'tflow'"),
    ],
)
def test_a_value_that_is_none_is_refused_in_the_same_words_as_in_python(option, value, message):
    done = run_stmg("evaluate", "small-streets", "street:0-0", option, value)
    assert done.returncode == 2
    assert message in done.stderr


def test_what_was_typed_is_typed_again_as_far_as_it_holds():
    assert format_options(GIVEN) == (
        " --network nets.py:build --normalize none --threshold 0.4 --corrector 'my corrector'"
    )
    assert format_options(GIVEN, OF_GRAPHS) == " --normalize none --threshold 0.4 --corrector 'my corrector'"
    assert format_options(GIVEN, OF_EXPORTS) == " --corrector 'my corrector'"
    assert format_options(GIVEN, OF_CHECKPOINTS) == " --network nets.py:build --threshold 0.4"


def test_the_mode_of_a_settings_file_is_not_that_of_commands_that_run_several(tmp_path):
    for mode in ("offline", "realtime"):
        file = tmp_path / f"{mode}.yaml"
        file.write_text(f"mode: {mode}\n")
        options = {"scheduler": "fixed:period=3,between=carry", "fusion": "0.25", "settings": str(file)}
        settings = make_spec("small-streets", options, several_modes=True).settings
        assert (settings.mode, settings.scheduler, settings.fusion) == (None, FixedPeriod(3, Level.CARRY), 0.25)


def test_the_mode_of_one_stream_follows_from_its_options():
    for options, mode in (({}, "realtime"), ({"scheduler": "paper"}, "online"), ({"delay": "4"}, "offline")):
        assert make_spec("small-streets", options, otherwise="realtime").settings.mode == mode
    with pytest.raises(SettingsError, match="delay is for offline mode; the mode is online"):
        make_spec("small-streets", {"scheduler": "paper", "delay": "4"}, otherwise="offline")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("segment",), "Missing argument"),
        (("segment", "drive.mp4", "--model", "small-streets", "--limit", "0"), "'--limit'"),
        (("segment", "drive.mp4", "--modle", "small-streets"), "--modle"),
        (("tune", "small-streets", "drive.mp4", "--target-fps", "fast"), "'--target-fps'"),
        (("data", "check"), "Missing argument"),
        (("segmnt",), "segmnt"),
    ],
)
def test_what_the_command_line_cannot_read_is_reported_in_one_line(arguments, message):
    done = run_stmg(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert is_one_line(done.stderr)
    assert message in done.stderr
    assert "--help" in done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_arguments_by_name_and_no_type_of_a_flag(verb):
    text = run_stmg(verb, "--help", columns=80).stdout
    assert all("--help" in line for line in text.splitlines() if "<bool>" in line)
    assert not re.search(r"\{[a-z]+\}", text)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
