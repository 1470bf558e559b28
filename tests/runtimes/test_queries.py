"""Queries: graphs that give a class and a mask for each query are read as classes, by the formula of MaskFormer."""

import numpy as np
import pytest
import torch

import stmg
from graphs import save_yolo
from stmg.runtimes.engine import GraphOutput
from stmg.runtimes.queries import find_queries
from zoo import texture

SIZE = (48, 64)
QUERIES, CLASSES = 5, 3


def test_it_gives_the_scores_of_the_models_own_formula(tmp_path):
    rng = np.random.default_rng(0)
    classes = rng.normal(0, 3, (QUERIES, CLASSES + 1)).astype(np.float32)
    masks = rng.normal(0, 3, (QUERIES, 12, 16)).astype(np.float32)
    path = save_yolo(tmp_path / "queries.onnx", classes, masks, size=SIZE)
    segmenter = stmg.load(path, threads=1)
    scores = torch.einsum(
        "qc,qhw->chw", torch.from_numpy(classes).softmax(-1)[:, :-1], torch.from_numpy(masks).sigmoid()
    )
    full = torch.nn.functional.interpolate(scores[None], SIZE, mode="bilinear", align_corners=False)
    assert np.array_equal(segmenter.step(texture(*SIZE)).labels, full[0].argmax(0).numpy())
    assert segmenter.runtime.num_classes == CLASSES
    assert any("queries" in note for note in segmenter.runtime.notes)


@pytest.mark.parametrize(
    ("shapes", "found"),
    [
        ([(1, 100, 134), (1, 100, 96, 96)], (0, 1)),
        ([("batch", 100, 96, 96), ("batch", 100, 134)], (1, 0)),
        ([(1, 116, 2100), (1, 32, 80, 80)], None),  # YOLO
        ([(1, 19, 48, 64), (1, 19, 6, 8)], None),  # a main and an auxiliary head
        ([(1, "queries", 134), (1, "queries", 96, 96)], None),
    ],
)
def test_shapes_tell_what_are_queries(shapes, found):
    assert find_queries([GraphOutput(str(number), shape, True) for number, shape in enumerate(shapes)]) == found
