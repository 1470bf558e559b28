"""YOLO networks: recognized by the shapes of their outputs, and read as their own post-processing reads them."""

import numpy as np
import pytest
import torch

import stmg
from graphs import save_yolo
from stmg.errors import ModelError
from stmg.runtimes.engine import GraphOutput
from stmg.runtimes.yolo import find_yolo, fit_letterbox
from zoo import texture

SIZE = (64, 96)
CELLS = 8 * 12 + 4 * 6 + 2 * 3
NAMES = ("person", "bicycle", "car")
PROTOTYPES = 8
IMAGE = texture(*SIZE)


def make_rows(number, seed=0):
    """Boxes around, scores of three classes of which few count, and weights of the prototypes."""
    random = np.random.default_rng(seed)
    boxes = np.stack(
        [random.uniform(5, 90, number), random.uniform(5, 60, number), *random.uniform(10, 50, (2, number))], 1
    )
    scores = random.uniform(0, 1, (number, len(NAMES))) ** 20
    scores[CELLS:] = 0
    return boxes, scores, random.normal(size=(number, PROTOTYPES))


def make_prototypes():
    maps = torch.randn(1, PROTOTYPES, 4, 6, generator=torch.Generator().manual_seed(0))
    smooth = torch.nn.functional.interpolate(maps, size=(16, 24), mode="bicubic")
    return smooth[0].numpy()


def post_process(boxes, scores, weights, prototypes, overlap):
    """Labels as the networks' own code gets them: non-maximum suppression, then masks, cut and upsampled."""
    boxes, scores, weights, prototypes = (
        torch.as_tensor(each, dtype=torch.float32) for each in (boxes, scores, weights, prototypes)
    )
    corners = torch.cat([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
    best, classes = scores.max(1)
    chosen = []
    for index in best.argsort(descending=True).tolist():
        if best[index] > 0.25 and all(
            classes[index] != classes[other] or intersection_over_union(corners[index], corners[other]) <= overlap
            for other in chosen
        ):
            chosen.append(index)
    labels = torch.zeros(SIZE, dtype=torch.uint8)
    for index in reversed(chosen):
        mask = torch.einsum("m,mhw->hw", weights[index], prototypes)
        left, top, right, bottom = corners[index] / 4
        rows, columns = torch.arange(16)[:, None], torch.arange(24)[None]
        mask = mask * ((columns >= left) * (columns < right) * (rows >= top) * (rows < bottom))
        full = torch.nn.functional.interpolate(mask[None, None], size=SIZE, mode="bilinear")[0, 0]
        labels[full > 0] = classes[index] + 1
    return labels.numpy()


def intersection_over_union(one, two):
    sides = (torch.minimum(one[2:], two[2:]) - torch.maximum(one[:2], two[:2])).clamp(min=0)
    shared = sides.prod()
    return shared / ((one[2:] - one[:2]).prod() + (two[2:] - two[:2]).prod() - shared)


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("version", [5, 8])
def test_it_gives_what_its_own_post_processing_gives(tmp_path, engine, shares, version):
    boxes, scores, weights = make_rows(CELLS * (3 if version == 5 else 1))
    given = boxes / (96, 64, 96, 64) if shares else boxes  # as exports for TensorFlow Lite have them
    prototypes = make_prototypes()
    if version == 5:
        objectness = np.full((len(boxes), 1), 0.8)
        table = np.concatenate([given, objectness, scores, weights], 1)
        expected = post_process(boxes, scores * 0.8, weights, prototypes, 0.45)
    else:
        table = np.concatenate([given, scores, weights], 1).T
        expected = post_process(boxes, scores, weights, prototypes, 0.7)
    path = save_yolo(tmp_path / "yolo.onnx", table, prototypes, size=SIZE)
    labels = stmg.load(path, runtime=engine, threads=1).step(IMAGE).labels
    assert set(np.unique(labels)) == {0, 1, 2, 3}
    assert np.array_equal(labels, expected)


def test_with_suppression_in_the_graph_boxes_are_taken_as_they_come(tmp_path):
    boxes, _, weights = make_rows(5)
    prototypes = make_prototypes()
    scores = np.array([0.9, 0.8, 0.6, 0.3, 0.1])
    classes = np.array([0, 2, 1, 0, 1])
    corners = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
    table = np.concatenate([corners, scores[:, None], classes[:, None], weights], 1)
    table = np.concatenate([table, np.zeros((7, table.shape[1]))])  # what is left of its rows
    path = save_yolo(tmp_path / "nms.onnx", table, prototypes, size=SIZE)
    expected = post_process(boxes, np.eye(3)[classes] * scores[:, None], weights, prototypes, 2.0)
    assert np.array_equal(stmg.load(path, threads=1).step(IMAGE).labels, expected)


def test_nothing_found_is_background_alone(tmp_path):
    boxes, scores, weights = make_rows(CELLS)
    table = np.concatenate([boxes, 0 * scores, weights], 1).T
    path = save_yolo(tmp_path / "none.onnx", table, make_prototypes(), size=SIZE)
    assert not stmg.load(path, threads=1).step(IMAGE).labels.any()


def test_names_of_the_classes_come_from_the_file(tmp_path):
    boxes, scores, weights = make_rows(CELLS)
    table = np.concatenate([boxes, scores, weights], 1).T
    path = save_yolo(tmp_path / "named.onnx", table, make_prototypes(), size=SIZE, names=NAMES)
    segmenter = stmg.load(path, threads=1)
    assert segmenter.class_names == ("background", *NAMES)
    assert segmenter.runtime.num_classes == 4
    assert segmenter.runtime.normalization == stmg.Normalization((0.0,) * 3, (1.0,) * 3)
    assert any("a YOLO network" in note for note in segmenter.runtime.notes)


def test_background_is_black_where_the_file_names_no_classes(tmp_path):
    boxes, scores, weights = make_rows(CELLS)
    table = np.concatenate([boxes, scores, weights], 1).T
    path = save_yolo(tmp_path / "unnamed.onnx", table, make_prototypes(), size=SIZE)
    palette = stmg.load(path).palette
    assert not palette[0].any()
    assert palette[1].any()


def test_a_frame_of_another_shape_keeps_it(tmp_path):
    boxes, scores, weights = make_rows(CELLS)
    path = save_yolo(
        tmp_path / "wide.onnx", np.concatenate([boxes, scores, weights], 1).T, make_prototypes(), size=SIZE
    )
    whole = stmg.load(path, threads=1).step(IMAGE).labels
    wide = stmg.load(path, threads=1).step(texture(32, 96)).labels  # lies in the middle of the input
    assert wide.shape == (32, 96)
    assert np.array_equal(wide[2:-2], whole[18:46])  # at the edges masks were upsampled with what lies beyond


def test_all_three_modes_run(tmp_path):
    boxes, scores, weights = make_rows(CELLS)
    table = np.concatenate([boxes, scores, weights], 1).T
    path = save_yolo(tmp_path / "yolo.onnx", table, make_prototypes(), size=SIZE)
    expected = stmg.load(path, threads=1).step(IMAGE).labels
    for mode in ("offline", "online", "realtime"):
        results = list(stmg.load(path, threads=1).stream([IMAGE] * 4, mode=mode))
        assert all(np.array_equal(result.labels, expected) for result in results)


def test_a_letterbox_keeps_the_shape_and_lies_between_cells_of_the_prototypes():
    assert fit_letterbox((720, 1280), (320, 320)) == ((320, 320), 68, 0, 180, 320)
    assert fit_letterbox((320, 320), (320, 320)) == ((320, 320), 0, 0, 320, 320)
    assert fit_letterbox((1280, 720), (320, 320)) == ((320, 320), 0, 68, 320, 180)
    assert fit_letterbox((350, 500), None) == ((352, 512), 0, 0, 352, 512)
    box = fit_letterbox((10, 40), (40, 40))
    filled = box.fill(np.full((10, 40, 3), 200, np.uint8))
    assert (filled[12:24] == 200).sum() == 12 * 40 * 3 - (filled[12:24] == 114).sum()
    assert (filled[0] == 114).all()


@pytest.mark.parametrize(
    ("shapes", "found"),
    [
        ([(1, 116, 8400), (1, 32, 160, 160)], (0, 1)),
        ([(1, 32, 160, 160), (1, 25200, 117)], (1, 0)),
        ([(1, 300, 38), (1, 32, 160, 160)], (0, 1)),
        ([(1, 116, 2100), (1, 80, 80, 32)], (0, 1)),
        ([("batch", 116, "anchors"), ("batch", 32, "height", "width")], (0, 1)),
        ([(1, 84, 8400)], None),
        ([(1, 19, 64, 64), (1, 19, 32, 32)], None),
        ([(1, 100, 134), (1, 100, 160, 160)], None),  # queries of a transformer
        ([(1, 21, 160, 160), (1, 21, 500)], None),
    ],
)
def test_shapes_tell_what_is_a_yolo_network(shapes, found):
    outputs = [GraphOutput(str(index), shape, True) for index, shape in enumerate(shapes)]
    assert find_yolo(outputs) == found


def test_a_table_that_fits_none_is_refused_when_it_runs(tmp_path):
    from stmg.runtimes.yolo import read_table

    with pytest.raises(ModelError, match="is none that YOLOv5, v8 or 11 has"):
        read_table(np.zeros((77, 50), np.float32), (8, 16, 24), SIZE)
