"""The number of each class in the labels, in the order of `CLASS_NAMES`."""

SKY, BUILDING, POLE, ROAD, SIDEWALK, TREE, SIGN, FENCE, CAR, PEDESTRIAN, BICYCLIST = range(11)
