import json
import math
from pathlib import Path

import numpy as np
import pytest

from stmg.errors import ModelError, SettingsError
from stmg.models.card import CARD, Card, card_json, parse_card, read_card
from stmg.models.names import find_checkpoint, shipped_names
from stmg.streaming.masks import Masking
from stmg.streaming.schedulers import DriftBudget

CONTENT = {"network": "small", "num_classes": 5, "size": [64, 96]}


def test_what_is_written_is_read(tmp_path):
    card = Card(
        "small",
        3,
        (64, 96),
        class_names=("a", "b", "c"),
        palette=((1, 2, 3), (4, 5, 6), (7, 8, 9)),
        output="out",
        scheduler={"name": "drift", "partial_above": math.inf},
        notes={"data": "streets"},
    )
    (tmp_path / CARD).write_text(card_json(card))
    assert read_card(tmp_path) == card


@pytest.mark.parametrize("name", shipped_names())
def test_cards_that_are_shipped_say_how_to_stream(name):
    card = read_card(find_checkpoint(name))
    settings = card.settings()
    assert len(settings.class_names) == len(settings.palette) == card.num_classes
    assert settings.fusion == card.fusion


def test_a_card_without_colors_or_settings_streams_as_any_segmenter_does():
    settings = Card("small", 5, (64, 96)).settings()
    assert settings.scheduler_for("online") == DriftBudget()
    assert settings.masking == Masking()
    assert len(settings.palette) > 5
    assert Card("small", 5, (64, 96), constant_mask=0.8).settings().masking == Masking(spatial=0.8)
    colored = Card("small", 2, (64, 96), palette=((1, 2, 3), (4, 5, 6))).settings()
    assert np.array_equal(colored.palette, [[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": 3}, "there is no setting colour; there are network, num_classes"),
        ({"num_classes": None}, "num_classes is missing"),
        ({"size": [64]}, r"size is a list of 2; got \[64\]"),
        ({"num_classes": "5"}, "num_classes is a whole number; got '5'"),
        ({"num_classes": 100_000}, "num_classes is from 1 to 255; got 100000"),
        ({"size": [60000, 60000]}, "60000x60000 is too large"),
        ({"fusion": float("nan")}, "fusion is a finite number"),
        ({"fusion": 10**400}, "fusion is a number"),
        ({"mean": [0.5]}, "three means"),
        ({"palette": [[0, 0, 300]]}, "palette holds values from 0 to 255"),
        ({"scheduler": {"name": "drift", "key_above": "abc"}}, "key_above of scheduler drift is a number; got 'abc'"),
        ({"scheduler": {"name": "drift", "longest": 2.5}}, "longest of scheduler drift is a whole number; got 2.5"),
        ({"std": [1, 1, 0]}, "three means and three stds above 0"),
        ({"scheduler": "drift"}, "scheduler has names and values; got 'drift'"),
    ],
)
def test_a_damaged_card_is_named(change, message):
    content = {key: value for key, value in {**CONTENT, **change}.items() if value is not None}
    with pytest.raises(ModelError, match=f"my.json is damaged: .*{message}"):
        parse_card(content, Path("my.json"))


def test_a_card_of_another_format_is_refused(tmp_path):
    for text, message in (
        ("[]", "not values by name"),
        (json.dumps({**CONTENT, "format": 7}), "another format than 1"),
        ("[" * 100_000, "nested too deeply"),
    ):
        (tmp_path / CARD).write_text(text)
        with pytest.raises(ModelError, match=f"{CARD} .*{message}"):
            read_card(tmp_path)
    (tmp_path / CARD).write_bytes(b'{"format": 1, "network": "\xff"}')
    with pytest.raises(ModelError, match="no text in UTF-8, from byte 26 on"):
        read_card(tmp_path)


def test_a_card_is_checked_where_it_is_built():
    with pytest.raises(SettingsError, match="num_classes is from 1 to 255; got 0"):
        Card("small", 0, (64, 96))
