import pytest


@pytest.fixture(scope="session", autouse=True)
def _render_once(render_once):
    """For every run."""
