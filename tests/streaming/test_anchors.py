import numpy as np

from stmg.runtimes.callable import CallableRuntime
from stmg.streaming.anchors import Anchor, carry_segmentation, compute_anchor
from stmg.streaming.blending import BlendInput, Side, blend_labels
from stmg.streaming.correction import halve_image
from stmg.streaming.segmentation import Segmentation
from stmg.video.frames import Frame
from zoo import colors, texture

SIZE = (48, 64)


def shift(pixels):
    """The flow of a picture that moved to the left by so many pixels."""
    flow = np.zeros((24, 32, 2), np.float32)
    flow[..., 0] = pixels / SIZE[1]
    return flow


def anchor(labels, logits=None, image=None):
    return Anchor(Segmentation(labels), logits, halve_image(texture(*SIZE) if image is None else image))


def test_an_anchor_is_what_the_network_gives():
    image = texture(*SIZE)
    computed = compute_anchor(CallableRuntime(colors), Frame(image))
    assert np.array_equal(computed.labels, image.argmax(2))
    assert np.array_equal(computed.logits.argmax(2), image.argmax(2))
    assert computed.small.shape == (24, 32, 3)


def test_a_class_that_a_network_rules_out_can_still_be_overruled():
    def anchor_of(*logits):
        network = CallableRuntime(lambda image: np.full((*SIZE, 3), logits, np.float32).transpose(2, 0, 1))
        return compute_anchor(network, Frame(texture(*SIZE)))

    left, right = Side(anchor_of(-1e9, 5, 4), None, 1), Side(anchor_of(30, 0, 0), None, 1)
    assert (blend_labels(BlendInput(left, right, texture(*SIZE))) == 0).all()


def test_carried_labels_are_those_where_the_flow_leads():
    labels = np.zeros(SIZE, np.uint8)
    labels[:, 20:] = 1
    assert np.array_equal(carry_segmentation(anchor(labels), shift(4)).labels[:, :60], labels[:, 4:])


def test_where_both_sides_agree_their_label_is_taken_whatever_the_logits_say():
    labels = np.full(SIZE, 2, np.uint8)
    logits = np.zeros((6, 8, 3), np.float32)
    logits[..., 0] = 9
    sides = [Side(anchor(labels, logits), None, 1), Side(anchor(labels, logits), None, 1)]
    assert (blend_labels(BlendInput(*sides, texture(*SIZE))) == 2).all()


def test_where_they_disagree_the_surer_side_wins_and_the_nearer_counts_more():
    image = texture(*SIZE)
    one, two = np.full(SIZE, 0, np.uint8), np.full(SIZE, 1, np.uint8)
    sure, unsure = np.zeros((6, 8, 2), np.float32), np.zeros((6, 8, 2), np.float32)
    sure[..., 0], unsure[..., 1] = 5, 0.5
    left, right = Side(anchor(one, sure, image), None, 1), Side(anchor(two, unsure, image), None, 1)
    assert (blend_labels(BlendInput(left, right, image)) == 0).all()
    assert (blend_labels(BlendInput(left._replace(distance=64), right, image)) == 0).all()  # sqrt(64) < 5 / 0.5
    assert (blend_labels(BlendInput(left._replace(distance=121), right, image)) == 1).all()


def test_the_side_that_does_not_explain_the_frame_counts_little():
    image, other = texture(*SIZE, seed=1), texture(*SIZE, seed=2)
    one, two = np.full(SIZE, 0, np.uint8), np.full(SIZE, 1, np.uint8)
    logits = [np.zeros((6, 8, 2), np.float32) for _ in range(2)]
    logits[0][..., 0], logits[1][..., 1] = 3, 3
    left, right = Side(anchor(one, logits[0], other), None, 1), Side(anchor(two, logits[1], image), None, 1)
    assert (blend_labels(BlendInput(left, right, image)) == 1).mean() > 0.95


def test_of_labels_alone_the_side_with_the_larger_weight_is_taken():
    image = texture(*SIZE)
    one, two = np.full(SIZE, 0, np.uint8), np.full(SIZE, 1, np.uint8)
    left, right = Side(anchor(one, None, image), None, 2), Side(anchor(two, None, image), None, 1)
    assert (blend_labels(BlendInput(left, right, image)) == 1).all()


def test_frames_of_odd_sides_are_blended_to_their_last_row_and_column():
    image = texture(45, 63)
    one, two = np.full((45, 63), 0, np.uint8), np.full((45, 63), 1, np.uint8)
    sides = [Side(anchor(labels, None, image), None, distance) for labels, distance in ((one, 2), (two, 1))]
    assert np.array_equal(blend_labels(BlendInput(*sides, image)), two)
