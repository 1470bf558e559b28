import logging

import pytest

from stmg.models.quantize import without_warnings_logged

LEVELS = [(logging.NOTSET, logging.WARNING), (logging.INFO, logging.WARNING), (logging.ERROR, logging.ERROR)]


@pytest.mark.parametrize(("before", "within"), LEVELS)
def test_what_the_caller_disabled_stays_so_though_the_tool_fails(before, within):
    seen = []

    def fail():
        with without_warnings_logged():
            seen.append(logging.root.manager.disable)
            raise RuntimeError

    logging.disable(before)
    try:
        with pytest.raises(RuntimeError):
            fail()
        assert [*seen, logging.root.manager.disable] == [within, before]
    finally:
        logging.disable(logging.NOTSET)
