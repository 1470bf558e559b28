"""Palettes: the colors that public datasets give their classes, found by the names of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from stmg.video.labels import MAX_CLASSES
from stmg.video.overlay import default_palette

Color = tuple[int, int, int]

KNOWN_SHARE = 0.8
"""Share of a network's classes that a dataset must have by name for its colors to be taken."""


def find_palette(class_names: Sequence[str]) -> tuple[Color, ...]:
    """RGB colors of classes, those of the dataset whose names they have; none if they have no dataset's.

    A class that the dataset does not know keeps its default color.
    """
    names = [_simplify(name) for name in class_names]
    best = max(DATASETS, key=lambda dataset: sum(name in _colors(dataset) for name in names))
    colors = _colors(best)
    if not names or sum(name in colors for name in names) < KNOWN_SHARE * len(names):
        return ()
    defaults = default_palette(MAX_CLASSES).tolist()
    return tuple(colors.get(name, tuple(default)) for name, default in zip(names, defaults, strict=False))


def with_black_background(palette: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A palette whose first class is the background: black, as in the public datasets."""
    return np.vstack((np.zeros((1, 3), np.uint8), palette[1:]))


def _simplify(name: str) -> str:
    """A name without synonyms, spelled as all datasets spell it: `bed `, `Traffic_Light` and `road, route`."""
    return name.split(",")[0].split(";")[0].replace("_", " ").strip().lower()


@cache
def _colors(dataset: str) -> dict[str, Color]:
    names, colors = DATASETS[dataset]
    values = bytes.fromhex(colors) if colors else _color_map(len(names.split(",")))
    triples = zip(values[::3], values[1::3], values[2::3], strict=True)
    simple = (_simplify(name) for name in names.replace("\n", " ").split(","))
    return {"background": (0, 0, 0), **dict(zip(simple, triples, strict=True))}


def _color_map(number: int) -> bytes:
    """The colors of VOC: the bits of a class, three at a time, from the highest of red, green and blue down."""
    return bytes(
        sum((index >> 3 * place + channel & 1) << 7 - place for place in range(8))
        for index in range(number)
        for channel in range(3)
    )


# Names are in the order of the classes. The colors are those of cityscapesScripts, of the ADE20K benchmark and of the
# panoptic categories of COCO, whose first 80 are the things.
DATASETS = {
    "Cityscapes": (
        """
road, sidewalk, building, wall, fence, pole, traffic light, traffic sign, vegetation, terrain, sky, person, rider,
car, truck, bus, train, motorcycle, bicycle
""",
        """
804080 f423e8 464646 66669c be9999 999999 faaa1e dcdc00 6b8e23 98fb98 4682b4 dc143c ff0000 00008e 000046 003c64
005064 0000e6 770b20
""",
    ),
    "ADE20K": (
        """
wall, building, sky, floor, tree, ceiling, road, bed, windowpane, grass, cabinet, sidewalk, person, earth, door,
table, mountain, plant, curtain, chair, car, water, painting, sofa, shelf, house, sea, mirror, rug, field, armchair,
seat, fence, desk, rock, wardrobe, lamp, bathtub, railing, cushion, base, box, column, signboard, chest of drawers,
counter, sand, sink, skyscraper, fireplace, refrigerator, grandstand, path, stairs, runway, case, pool table,
pillow, screen door, stairway, river, bridge, bookcase, blind, coffee table, toilet, flower, book, hill, bench,
countertop, stove, palm, kitchen island, computer, swivel chair, boat, bar, arcade machine, hovel, bus, towel,
light, truck, tower, chandelier, awning, streetlight, booth, television receiver, airplane, dirt track, apparel,
pole, land, bannister, escalator, ottoman, bottle, buffet, poster, stage, van, ship, fountain, conveyer belt,
canopy, washer, plaything, swimming pool, stool, barrel, basket, waterfall, tent, bag, minibike, cradle, oven, ball,
food, step, tank, trade name, microwave, pot, animal, bicycle, lake, dishwasher, screen, blanket, sculpture, hood,
sconce, vase, traffic light, tray, ashcan, fan, pier, crt screen, plate, monitor, bulletin board, shower, radiator,
glass, clock, flag
""",
        """
787878 b47878 06e6e6 503232 04c803 787850 8c8c8c cc05ff e6e6e6 04fa07 e005ff ebff07 96053d 787846 08ff33 ff0652
8fff8c ccff04 ff3307 cc4603 0066c8 3de6fa ff0633 0b66ff ff0747 ff09e0 0907e6 dcdcdc ff095c 7009ff 08ffd6 07ffe0
ffb806 0aff47 ff290a 07ffff e0ff08 6608ff ff3d06 ffc207 ff7a08 00ff14 ff0829 ff0599 0633ff eb0cff a09614 00a3ff
8c8c8c fa0a0f 14ff00 1fff00 ff1f00 ffe000 99ff00 0000ff ff4700 00ebff 00adff 1f00ff 0bc8c8 ff5200 00fff5 003dff
00ff70 00ff85 ff0000 ffa300 ff6600 c2ff00 008fff 33ff00 0052ff 00ff29 00ffad 0a00ff adff00 00ff99 ff5c00 ff00ff
ff00f5 ff0066 ffad00 ff0014 ffb8b8 001fff 00ff3d 0047ff ff00cc 00ffc2 00ff52 000aff 0070ff 3300ff 00c2ff 007aff
00ffa3 ff9900 00ff0a ff7000 8fff00 5200ff a3ff00 ffeb00 08b8aa 8500ff 00ff5c b800ff ff001f 00b8ff 00d6ff ff0070
5cff00 00e0ff 70e0ff 46b8a0 a300ff 9900ff 47ff00 ff00a3 ffcc00 ff008f 00ffeb 85ff00 ff00eb f500ff ff007a fff500
0abed4 d6ff00 00ccff 1400ff ffff00 0099ff 0029ff 00ffcc 2900ff 29ff00 ad00ff 00f5ff 4700ff 7a00ff 00ffb8 005cff
b8ff00 0085ff ffd600 19c2c2 66ff00 5c00ff
""",
    ),
    "COCO": (
        """
person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, stop sign, parking
meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, backpack, umbrella, handbag, tie,
suitcase, frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, skateboard, surfboard, tennis
racket, bottle, wine glass, cup, fork, knife, spoon, bowl, banana, apple, sandwich, orange, broccoli, carrot, hot
dog, pizza, donut, cake, chair, couch, potted plant, bed, dining table, toilet, tv, laptop, mouse, remote, keyboard,
cell phone, microwave, oven, toaster, sink, refrigerator, book, clock, vase, scissors, teddy bear, hair drier,
toothbrush, banner, blanket, bridge, cardboard, counter, curtain, door-stuff, floor-wood, flower, fruit, gravel,
house, light, mirror-stuff, net, pillow, platform, playingfield, railroad, river, road, roof, sand, sea, shelf,
snow, stairs, tent, towel, wall-brick, wall-stone, wall-tile, wall-wood, water-other, window-blind, window-other,
tree-merged, fence-merged, ceiling-merged, sky-other-merged, cabinet-merged, table-merged, floor-other-merged,
pavement-merged, mountain-merged, grass-merged, dirt-merged, paper-merged, food-other-merged, building-other-merged,
rock-merged, wall-other-merged, rug-merged
""",
        """
dc143c 770b20 00008e 0000e6 6a00e4 003c64 005064 000046 0000c0 faaa1e 64aa1e dcdc00 af74af fa001e a52a2a ff4dff
00e2fc b6b6ff 005200 78a69d 6e4c00 ae39ff c76400 480076 ffb3f0 007d5c d10097 bcd0b6 00dcb0 ff63a4 5c0049 8581ff
4eb4ff 00e400 aefff3 2d59ff 868667 9194ae ffd0ba c5e2ff ab8601 6d3f36 cf8aff 97005f 09503d 546933 4a4169 a6c466
d0c3d2 ff6d41 008f95 b300c2 d1636a 057900 e3ffcd 93bad0 994501 035fa1 a3ff00 7700aa 00b6c7 00a578 b78258 5f2000
827287 6e8185 a64a76 db8eb9 4fd272 b25a3e 41460f 7fa773 3b696a 8e6c2d c4ac00 5f3650 804cff c93901 f6007a bfa2d0
ffff80 93d3cb 966464 a8abac 9270c6 d2aa64 5c8859 da58b8 f18100 d911ff 7c4ab5 464646 ffe4ff 9ad000 c1005c 4c5b71
ffb4c3 6a9ab0 e6968c 3c8fff 804080 5c5237 fed47c 494dae ffa062 ffffff 68546d a9a483 e1c7ff 89364a 879edf 07f6e7
6bffc8 3a2995 b7798e ff4961 6b8e23 be9999 928b8d 4682b4 86c79c d1e28c 60246c 606060 40aa40 98fb98 d0e5e4 cebaab
98a140 747000 00728f 66669c fa8dff
""",
    ),
    "VOC": (
        """
background, aeroplane, bicycle, bird, boat, bottle, bus, car, cat, chair, cow, diningtable, dog, horse, motorbike,
person, pottedplant, sheep, sofa, train, tvmonitor
""",
        "",
    ),
}
