import subprocess
import sys
import textwrap


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
    assert 'pip install "stmg[torch]"' in needs
