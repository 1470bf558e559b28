"""What is suggested to type opens a model as it was opened; a file's mode does not bind commands that run several."""

from stmg.cli.options import ModelOptions, StreamOptions, make_spec
from stmg.cli.suggestion import OF_CHECKPOINTS, OF_EXPORTS, OF_GRAPHS, typed_options
from stmg.streaming.schedulers import FixedPeriod, Level

GIVEN = ModelOptions(network="nets.py:build", normalize="none", threshold=0.4, corrector="my corrector", runtime="onnx")


def test_what_was_typed_is_typed_again_as_far_as_it_holds():
    assert typed_options(GIVEN) == (
        " --network nets.py:build --normalize none --threshold 0.4 --corrector 'my corrector'"
    )
    assert typed_options(GIVEN, OF_GRAPHS) == " --normalize none --threshold 0.4 --corrector 'my corrector'"
    assert typed_options(GIVEN, OF_EXPORTS) == " --corrector 'my corrector'"
    assert typed_options(GIVEN, OF_CHECKPOINTS) == " --network nets.py:build --threshold 0.4"


def test_the_mode_of_a_settings_file_is_not_that_of_commands_that_run_several(tmp_path):
    every = FixedPeriod(3, Level.CARRY)
    for mode in ("offline", "realtime"):
        file = tmp_path / f"{mode}.yaml"
        file.write_text(f"mode: {mode}\n")
        stream = StreamOptions(scheduler="fixed:period=3,between=carry", fusion=0.25, settings=file)
        settings = make_spec("small-streets", ModelOptions(), stream, several_modes=True).settings
        assert (settings.mode, settings.scheduler, settings.fusion) == (None, every, 0.25)
