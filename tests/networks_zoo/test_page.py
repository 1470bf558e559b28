"""The page of networks shows the table of those that are run, and there are enough of them."""

from __future__ import annotations

from networks_zoo.table import PAGE, ROWS, fill_page


def test_the_page_has_the_table_of_the_networks_that_are_run():
    text = PAGE.read_text()
    assert fill_page(text) == text, "make networks"


def test_at_least_thirty_networks_are_run_wherever_the_tests_run():
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert len([row for row in ROWS if not row.needs]) >= 30
