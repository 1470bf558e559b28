import json
import subprocess
import sys
import textwrap
from pathlib import Path

import av
import pytest

from zoo import panning

ROOT = Path(__file__).parents[1]


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
@pytest.mark.timeout(400)
def test_an_export_segments_a_video_where_pytorch_is_not_installed(tmp_path):
    """As a user would: `pip install "stmg[onnx]"` in an environment of its own, and one command."""
    size, video, out = (64, 96), tmp_path / "video.mp4", tmp_path / "export"
    with av.open(str(video), "w") as container:
        stream = container.add_stream("mpeg4", rate=10, width=size[1], height=size[0], pix_fmt="yuv420p")
        for image in panning(5, size):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    made = ["export", "small-streets", "--to", "onnx", "--size", "64x96", "--check", str(video), "--out", str(out)]
    done = subprocess.run([sys.executable, "-m", "stmg", *made], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "difference from PyTorch" in " ".join(done.stdout.split())
    loads = "import sys, stmg; stmg.load(sys.argv[1]); print('torch' in sys.modules)"  # where it is installed, too
    assert subprocess.check_output([sys.executable, "-c", loads, str(out)], text=True).strip() == "False"

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    subprocess.run([*install, f"{ROOT}[onnx]"], check=True)
    assert subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 1
    command = [python, "-m", "stmg", "segment", str(video), "--out", str(tmp_path / "out"), "--model"]
    done = subprocess.run([*command, str(out)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    records = (tmp_path / "out" / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in records] == [0, 1, 2, 3, 4]
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"overlay.mp4"}
    done = subprocess.run([*command, str(tmp_path / "mistyped")], capture_output=True, text=True)
    assert done.returncode == 2
    assert "mistyped is neither an exported folder nor a graph file" in done.stderr
