import pytest

from stmg.models.palettes import DATASETS, find_palette
from stmg.video.labels import MAX_CLASSES
from stmg.video.overlay import default_palette


@pytest.mark.parametrize(
    ("dataset", "number", "samples"),
    [
        ("Cityscapes", 19, {"road": (128, 64, 128), "bicycle": (119, 11, 32)}),
        ("ADE20K", 150, {"wall": (120, 120, 120), "road": (140, 140, 140), "flag": (92, 0, 255)}),
        ("COCO", 133, {"toothbrush": (191, 162, 208), "rug-merged": (250, 141, 255)}),
        ("VOC", 21, {"background": (0, 0, 0), "aeroplane": (128, 0, 0), "tvmonitor": (0, 64, 128)}),
    ],
)
def test_classes_of_a_public_dataset_have_its_colors(dataset, number, samples):
    names = [name.strip() for name in DATASETS[dataset][0].replace("\n", " ").split(",")]
    colors = dict(zip(names, find_palette(names), strict=True))
    assert len(colors) == number
    assert {name: colors[name] for name in samples} == samples


def test_names_are_spelled_in_many_ways_and_may_be_in_any_order():
    assert find_palette(["Sky", "traffic_light", "road "]) == ((70, 130, 180), (250, 170, 30), (128, 64, 128))
    assert find_palette(["__background__", "aeroplane"]) == ((0, 0, 0), (128, 0, 0))


def test_a_few_unknown_classes_keep_their_default_color_and_many_have_no_dataset():
    names = ["road", "sidewalk", "building", "tram", "sky"]
    assert find_palette(names)[3] == tuple(default_palette(MAX_CLASSES)[3].tolist())
    assert find_palette(["road", "tram", "kerb"]) == ()
    assert find_palette([]) == ()
