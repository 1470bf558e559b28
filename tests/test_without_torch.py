import json
import subprocess
import sys
import textwrap

import av
import pytest

from commands import start_stmg
from environments import make_environment, run
from exporting import IN_A_PROCESS
from zoo import panning


def test_a_black_box_is_segmented_without_pytorch_installed(tmp_path):
    """With torch out of reach, the package imports, streams a folder and says what a torch feature would need."""
    script = """
        import sys
        sys.modules["torch"] = None
        import cv2
        import numpy as np
        import stmg
        picture = np.random.default_rng(0).integers(0, 255, (64, 96, 3)).astype(np.uint8)
        for number in range(4):
            cv2.imwrite(f"{number}.png", np.roll(picture, 2 * number, axis=1))
        segmenter = stmg.VideoSegmenter(lambda image: image.transpose(2, 0, 1).astype(np.float32))
        with stmg.open_video(".") as video:
            print(*[result.level.value for result in segmenter.stream(video)])
        try:
            stmg.accelerate
        except ImportError as error:
            print(error)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    levels, needs = run.stdout.splitlines()
    assert levels.split()[0] == "key"
    assert len(levels.split()) == 4
    assert '[torch]"' in needs


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_an_export_segments_a_video_where_pytorch_is_not_installed(wheel, tmp_path):
    """As for a user who has `stmg[onnx]` in an environment of its own: one command."""
    size, video, out = (64, 96), tmp_path / "video.mp4", tmp_path / "export"
    with av.open(str(video), "w") as container:
        stream = container.add_stream("mpeg4", rate=10, width=size[1], height=size[0], pix_fmt="yuv420p")
        for image in panning(5, size):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    made = ["export", "small-streets", "--to", "onnx", "--size", "64x96", "--check", str(video), "--out", str(out)]
    process = start_stmg(*made, before=IN_A_PROCESS)
    printed, error = process.communicate()
    assert (process.returncode, error) == (0, "")
    assert "difference from PyTorch" in " ".join(printed.split())
    loads = "import sys, stmg; stmg.load(sys.argv[1]); print('torch' in sys.modules)"  # where it is installed, too
    assert subprocess.check_output([sys.executable, "-c", loads, str(out)], text=True).strip() == "False"

    python = make_environment(tmp_path / "venv", wheel, "onnx")
    assert run(python, "-c", "import torch", folder=tmp_path).returncode == 1
    command = ("-m", "stmg", "segment", video, "--out", tmp_path / "out", "--model")
    done = run(python, *command, out, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    records = (tmp_path / "out" / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in records] == [0, 1, 2, 3, 4]
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"overlay.mp4"}
    done = run(python, *command, tmp_path / "mistyped", folder=tmp_path)
    assert done.returncode == 2
    assert "mistyped is neither an exported folder nor a graph file" in done.stderr
