import pytest

from stmg.data.synthetic.dataset import RenderedVideo


@pytest.fixture(scope="session", autouse=True)
def _render_once():
    """Every run looks at the same few frames, and rendering them takes longer than training on them."""
    frames = {}
    render = RenderedVideo._frame

    def render_once(video, index):
        key = (video.seed, video.size, index)
        if key not in frames:
            frames[key] = render(video, index)
        return frames[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RenderedVideo, "_frame", render_once)
        yield
