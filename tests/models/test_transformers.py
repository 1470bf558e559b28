import json
import re
import sys

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import hugging_face as hf
import stmg
from stmg.errors import MissingPackageError, ModelError, SettingsError, install_command
from stmg.gating.outputs import find_logits
from stmg.models.model_files import list_model_files
from stmg.models.names import WEIGHTS
from stmg.models.spec import ModelSpec
from zoo import panning

SIZE = (72, 104)


@pytest.fixture(scope="module")
def segformer(tmp_path_factory):
    """The folder of a SegFormer and its processor, which normalizes in a way of its own."""
    folder = tmp_path_factory.mktemp("segformer")
    hf.make_segformer().save_pretrained(folder)
    size = {"height": 64, "width": 128}
    hf.make_processor("Segformer", size=size, image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.4]).save_pretrained(
        folder
    )
    return folder


def compute(model, processor, frame, **more):
    """The output for a frame, which is not resized first."""
    pixels = processor(frame, return_tensors="pt", do_resize=False, do_pad=False)["pixel_values"]
    with torch.no_grad():
        return model(pixels, **more)


def expected(model, processor, frame, **more):
    """The labels of a frame as transformers computes them, without resizing it first."""
    output = compute(model, processor, frame, **more)
    return processor.post_process_semantic_segmentation(output, target_sizes=[frame.shape[:2]])[0].numpy()


def test_a_folder_is_loaded_with_its_normalization_size_classes_and_colors(segformer):
    segmenter = stmg.load(segformer, device="cpu")
    assert (segmenter.runtime.normalization.mean, segmenter.runtime.normalization.std) == (
        (0.4, 0.5, 0.6),
        (0.2, 0.3, 0.4),
    )
    assert segmenter.settings.model_size == (64, 128)
    assert segmenter.size_for((128, 256)) == (64, 128)
    assert segmenter.class_names == tuple(hf.LABELS.values())
    assert segmenter.palette[:2].tolist() == [[128, 64, 128], [244, 35, 232]]
    assert [path.name for path in list_model_files(ModelSpec(str(segformer)))] == [
        "config.json",
        WEIGHTS,
        "preprocessor_config.json",
    ]


def test_labels_of_a_computed_frame_are_those_of_transformers(segformer):
    processor = hf.make_processor("Segformer", image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.4])
    model = hf.make_segformer()
    segmenter = stmg.load(segformer, device="cpu", scheduler="always-key", fusion=0, size=SIZE)
    for frame in np.random.default_rng(0).integers(0, 256, (3, *SIZE, 3), np.uint8):
        result = segmenter.step(frame)
        assert len(np.unique(result.labels)) > 1
        assert np.array_equal(result.labels, expected(model, processor, frame))


def test_a_network_that_takes_blue_first_is_given_blue_first(tmp_path):
    model, processor = hf.make_mobilevit(), hf.make_processor("MobileViT")
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    segmenter = stmg.load(tmp_path, device="cpu", scheduler="always-key", fusion=0, size=(64, 96))
    assert segmenter.runtime.normalization.std == (1, 1, 1)
    frame = np.random.default_rng(0).integers(0, 256, (64, 96, 3), np.uint8)
    pixels = processor(frame, return_tensors="pt", do_resize=False, do_center_crop=False)["pixel_values"]
    assert torch.allclose(pixels[0, 0], torch.from_numpy(frame[:, :, 2] / 255).float())
    with torch.no_grad():
        output = model(pixels)
    labels = processor.post_process_semantic_segmentation(output, target_sizes=[(64, 96)])[0].numpy()
    assert len(np.unique(labels)) > 1
    assert np.array_equal(segmenter.step(frame).labels, labels)


@pytest.mark.parametrize(
    ("options", "normalization", "size"),
    [
        ({"do_rescale": False}, ((0.1 / 255,) * 3, (0.5 / 255,) * 3), (512, 512)),
        ({"rescale_factor": 2 / 255}, ((0.05,) * 3, (0.25,) * 3), (512, 512)),
        ({"do_normalize": False, "do_resize": False}, ((0,) * 3, (1,) * 3), None),
        ({"size": {"shortest_edge": 90}}, ((0.1,) * 3, (0.5,) * 3), (90, 160)),
        ({"size": {"shortest_edge": 90, "longest_edge": 80}}, ((0.1,) * 3, (0.5,) * 3), (45, 80)),
    ],
)
def test_what_a_processor_says_is_honored(tmp_path, options, normalization, size):
    hf.make_segformer().save_pretrained(tmp_path)
    stated = {"image_mean": [0.1] * 3, "image_std": [0.5] * 3, **options}
    processor = {"image_processor_type": "SegformerImageProcessor", **stated}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
    segmenter = stmg.load(tmp_path, device="cpu")
    used = segmenter.runtime.normalization
    assert np.allclose((used.mean, used.std), normalization)
    assert segmenter.settings.model_size == size


@pytest.mark.parametrize("name", hf.UNIVERSAL)
def test_queries_are_read_by_the_formula_of_their_model(tmp_path, name):
    model = hf.UNIVERSAL[name]()
    size = (64, 64) if name == "EoMT" else SIZE
    more = {}
    processor = hf.make_processor("MaskFormer" if name == "OneFormer" else name.replace("EoMT", "Eomt"))
    if name == "EoMT":
        processor = hf.make_processor("Eomt", size={"shortest_edge": 64, "longest_edge": 64})
    if name == "OneFormer":
        hf.write_tokenizer(tmp_path)
        more = {"task_inputs": torch.tensor([[2, 3, 4, 5, 0, 0, 0]])}
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    segmenter = stmg.load(tmp_path, device="cpu", scheduler="always-key", fusion=0)
    assert segmenter.runtime.num_classes == 5
    for frame in np.random.default_rng(0).integers(0, 256, (2, *size, 3), np.uint8):
        assert np.array_equal(segmenter.step(frame).labels, expected(model, processor, frame, **more))
        output = compute(model, processor, frame, **more)
        scores = F.interpolate(find_logits(output, None, size), size=size, mode="bilinear", align_corners=False)
        theirs = processor.post_process_semantic_segmentation(output, [size], return_segmentation_scores=True)
        assert torch.equal(scores[0], theirs[0].segmentation_scores)


@pytest.mark.parametrize("name", [name for name in hf.UNIVERSAL if name != "OneFormer"])
def test_a_module_that_gives_queries_is_known_by_its_output(name):
    model, processor = hf.UNIVERSAL[name](), hf.make_processor(name.replace("EoMT", "Eomt"))
    if name == "EoMT":
        processor = hf.make_processor("Eomt", size={"shortest_edge": 64, "longest_edge": 64})
    segmenter = stmg.VideoSegmenter(model, device="cpu", scheduler="always-key", fusion=0)
    frame = panning(1, (64, 64) if name == "EoMT" else SIZE)[0]
    assert np.array_equal(segmenter.step(frame).labels, expected(model, processor, frame))


def test_a_module_that_takes_more_than_the_image_says_what():
    with pytest.raises(ModelError, match=r"OneFormer is told its task in words; stmg\.load it by its name or folder"):
        stmg.VideoSegmenter(hf.make_oneformer(), device="cpu")

    class Two(torch.nn.Conv2d):
        def forward(self, image, depth, scale=1.0, **options):
            return super().forward(image) * scale

    with pytest.raises(ModelError, match="its forward takes depth too; wrap it in a module"):
        stmg.VideoSegmenter(Two(3, 4, 3), device="cpu")


def test_a_network_of_one_size_computes_frames_of_any():
    segmenter = stmg.VideoSegmenter(hf.make_eomt(), device="cpu")
    assert segmenter.runtime.input_size == (64, 64)
    for mode in ("online", "offline", "realtime"):
        results = list(segmenter.stream(panning(3, (48, 80)), mode=mode))
        assert [result.labels.shape for result in results] == [(48, 80)] * 3
    with pytest.raises(SettingsError, match="computes frames of 64x64, and no other"):
        stmg.VideoSegmenter(hf.make_eomt(), device="cpu", size=(96, 96))


@pytest.mark.parametrize("mode", ["online", "offline", "realtime"])
def test_every_mode_runs(segformer, mode):
    results = list(stmg.load(segformer, device="cpu").stream(panning(4, SIZE), mode=mode))
    assert [result.labels.shape for result in results] == [SIZE] * 4


def test_names_and_colors_are_unknown_where_the_labels_have_no_names(tmp_path):
    hf.make_segformer(id2label=None, label2id=None, num_labels=3).save_pretrained(tmp_path)
    segmenter = stmg.load(tmp_path, device="cpu")
    assert (segmenter.class_names, segmenter.settings.model_size) == ((), None)
    assert np.array_equal(segmenter.palette, stmg.Settings().palette)


def test_what_cannot_segment_is_refused_in_one_line(tmp_path):
    from transformers import SegformerForImageClassification

    SegformerForImageClassification(hf.make_segformer().config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="is a SegformerForImageClassification; of transformers, semantic and"):
        stmg.load(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["SegformerForSemanticSegmentation"]}))
    with pytest.raises(ModelError, match="lacks weights of SegformerForSemanticSegmentation, first decode_head"):
        stmg.load(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"has no architecture in its config\.json"):
        stmg.load(tmp_path)
    (tmp_path / "config.json").write_text("[")
    with pytest.raises(ModelError, match=r"config\.json cannot be read"):
        stmg.load(tmp_path)


def test_code_in_a_folder_is_never_run(tmp_path):
    hf.make_segformer().save_pretrained(tmp_path)
    proof = tmp_path / "was_here"
    (tmp_path / "modeling_own.py").write_text(f"open({str(proof)!r}, 'w')\n")
    config = json.loads((tmp_path / "config.json").read_text())
    code = {"AutoConfig": "modeling_own.Config", "AutoModelForSemanticSegmentation": "modeling_own.Model"}
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": code}))
    with pytest.raises(ModelError, match="cannot be loaded by transformers"):
        stmg.load(tmp_path)
    assert not proof.exists()


class Attack:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickled_weights_are_read_and_pickled_code_is_not_run(tmp_path):
    model = hf.make_segformer()
    model.save_pretrained(tmp_path)
    (tmp_path / WEIGHTS).unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    assert stmg.load(tmp_path, device="cpu").runtime.num_classes == 5
    torch.save({**model.state_dict(), "x": Attack(tmp_path / "was_here")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="cannot be loaded by transformers"):
        stmg.load(tmp_path)
    assert not (tmp_path / "was_here").exists()


@pytest.mark.parametrize("argument", ["weights", "network"])
def test_what_a_whole_model_does_not_need_is_refused(segformer, argument):
    with pytest.raises(SettingsError, match=f"{argument} cannot be used with"):
        stmg.load(segformer, **{argument: "x.py:f"})


def test_a_normalization_that_is_given_comes_first(segformer):
    segmenter = stmg.load(segformer, device="cpu", normalize="none")
    assert segmenter.runtime.normalization.std == (1, 1, 1)


def test_without_the_package_the_extra_is_named(segformer, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingPackageError, match=re.escape(f"loading it needs: {install_command('hf')}")):
        stmg.load(segformer)
