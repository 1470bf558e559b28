"""The id of each class in the labels: those of CamVid."""

from stmg.data.camvid import CLASS_NAMES

SKY, BUILDING, POLE, ROAD, SIDEWALK, TREE, SIGN, FENCE, CAR, PEDESTRIAN, BICYCLIST = range(len(CLASS_NAMES))
