import pytest

from stmg.errors import first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("wrong size"), "wrong size"),
        (RuntimeError("\n  no such layer \nat graph.cc:12"), "no such layer "),
        (ValueError(), "ValueError"),
        (OSError(" \n"), "OSError"),
    ],
)
def test_the_first_line_of_an_error(error, line):
    assert first_line(error) == line
