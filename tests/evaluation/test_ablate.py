"""Ablations: the effect of each part."""

import numpy as np
import pytest

from fakes import fix_size
from stmg import VideoSegmenter
from stmg.errors import DataError
from stmg.evaluation.ablate import MASKS, REUSE, TRAINING, ablate, list_trials
from stmg.evaluation.measure import measure_stream
from stmg.evaluation.way import apply_way
from stmg.streaming.masks import Masking
from stmg.streaming.schedulers import AlwaysKey, Level
from stmg.training.pairs import IdentityCorrector
from zoo import colors

SIZE = (48, 64)


@pytest.fixture(scope="module")
def result(dataset, runtime):
    segmenter = VideoSegmenter(runtime)
    done = []
    found = ablate(
        segmenter, dataset, others={"another": segmenter}, size=SIZE, seeds=2, on_row=lambda *row: done.append(row)
    )
    total = len(list_trials(segmenter)) + 4
    assert [number for _, number, _ in done] == list(range(1, total + 1))
    assert {each for _, _, each in done} == {total}
    return found


def test_the_papers_tables_are_filled(result):
    assert len(result.tables) == 5
    rows = {row.name: row for table in result.tables for row in table.rows}
    assert rows["random block pruning"].seeds == 2
    assert rows["random block pruning"].miou_std is not None
    assert rows["spatial-temporal masking"].miou_std is None
    assert rows["base network"].miou == result.base.miou
    masks = next(table for table in result.tables if table.title == MASKS)
    costs = {row.name: row.cost for row in masks.rows}
    assert costs["uniform blending (m_sp = 0.5)"] == costs["spatial-temporal masking"]  # at equal cost


def test_the_base_is_the_network_on_every_frame(result, dataset, runtime):
    base = measure_stream(VideoSegmenter(runtime, scheduler=AlwaysKey()), dataset, "val", SIZE)
    assert result.base.miou == pytest.approx(base.miou, abs=1e-3)
    assert result.base.cost.macs == base.cost.macs
    assert (result.base.share(Level.KEY), result.base.kept_blocks, result.frames) == (100, None, 12)


def test_speeds_are_of_the_table_that_has_them(result):
    for table in result.tables:
        assert all((row.timing is not None) == (table.title == REUSE) for row in table.rows)
    reuse = next(table for table in result.tables if table.title == REUSE)
    assert reuse.rows[0].gain == 1


def test_another_checkpoint_is_measured_as_this_one(result):
    rows = {row.name: row for table in result.tables if table.title == TRAINING for row in table.rows}
    assert len(rows) == 4
    assert rows["another, its own settings"].miou == rows["this one, its own settings"].miou


def test_without_a_mask_generator_only_what_needs_none_is_tried():
    assert len(list_trials(VideoSegmenter(colors))) == 7


def test_an_export_is_not_tried_with_a_scale_or_blocks_that_it_does_not_have(runtime):
    names = [trial.way.name for trial in list_trials(VideoSegmenter(runtime, partial_scale=0.5))]
    assert "pruned and reused, partial frames at full scale" in names
    fixed = fix_size(runtime, SIZE)
    fixed.fixed_blocks = (True,) * runtime.num_blocks
    others = [trial.way.name for trial in list_trials(VideoSegmenter(fixed, partial_scale=0.5))]
    assert [name for name in names if name not in others] == [
        "random block pruning",
        "pruned and reused, partial frames at full scale",
    ]


def test_only_the_checkpoints_own_settings_have_its_corrector(dataset, runtime):
    segmenter = VideoSegmenter(runtime, corrector=IdentityCorrector(dataset.num_classes))
    rows = {trial.way.name: apply_way(trial.way, segmenter) for trial in list_trials(segmenter)}
    corrected = {name for name, row in rows.items() if row.settings.corrector is not None}
    assert corrected == {"the checkpoint's own settings", "  without fusing key frames"}
    result = ablate(segmenter.another(max_change=0.02), dataset, size=SIZE, seeds=1, limit=1)
    assert result.settings.endswith("fusion 0.5, mask gain 1.5, corrector")  # no row is steered


def test_random_masks_differ_from_the_checkpoints_in_one_thing(runtime):
    own = Masking(spatial=0.8)
    segmenter = VideoSegmenter(runtime, masking=own)
    ways = [trial.way for trial in list_trials(segmenter) if trial.table == MASKS]
    masks = {way.name: apply_way(way, segmenter).settings.masking for way in ways}
    assert masks == {
        "random block pruning": Masking(spatial=0.8, pruning="random"),
        "random spatial masking": Masking(spatial="random"),
        "uniform blending (m_sp = m_avg)": Masking(spatial="uniform"),
        "uniform blending (m_sp = 0.5)": Masking(spatial=0.5),
        "the checkpoint's masks (m_sp 0.8, pruning learned)": own,
    }


def test_other_classes_are_refused(dataset, runtime):
    with pytest.raises(DataError, match="3 classes"):
        ablate(VideoSegmenter(runtime), dataset, others={"colors": VideoSegmenter(colors)}, size=SIZE)


def test_an_interruption_leaves_the_rows_that_are_done(dataset, runtime):
    def stop(name, done, total):
        if done == 2:
            raise KeyboardInterrupt

    result = ablate(VideoSegmenter(runtime), dataset, size=SIZE, seeds=1, limit=2, on_row=stop)
    assert result.interrupted
    assert [len(table.rows) for table in result.tables] == [2]
    assert np.isfinite(result.base.miou)
