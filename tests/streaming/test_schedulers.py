"""Schedulers: levels computed by hand."""

import math

import pytest

from stmg.errors import SettingsError
from stmg.streaming.schedulers import (
    AFTER_FIRST_FRAME,
    SCHEDULERS,
    DriftBudget,
    Evidence,
    FixedPeriod,
    Level,
    Memory,
    PaperScheduler,
    make_scheduler,
)


def levels(scheduler, distortions, drifts=None):
    """The levels of the frames after a first key frame."""
    memory, out = AFTER_FIRST_FRAME, []
    for number, distortion in enumerate(distortions):
        evidence = Evidence(distortion, drifts[number] if drifts else distortion)
        level = scheduler.decide(evidence, memory)
        memory = scheduler.remember(level, evidence, memory)
        out.append(level.value[0])
    return "".join(out)


def test_the_papers_thresholds_by_hand():
    scheduler = PaperScheduler()
    memory = scheduler.remember(Level.KEY, Evidence(0.3, 0), AFTER_FIRST_FRAME)
    assert memory.threshold == pytest.approx(0.6)
    memory = scheduler.remember(Level.PARTIAL, Evidence(0.4, 0), memory)
    assert memory.threshold == pytest.approx(0.38)
    assert scheduler.decide(Evidence(0.39, 0), memory) is Level.KEY
    assert scheduler.decide(Evidence(0.37, 0), memory) is Level.PARTIAL


def test_the_papers_policy_after_the_first_frame_never_calls_a_key_frame():
    assert PaperScheduler().decide(Evidence(1.0, 0), AFTER_FIRST_FRAME) is Level.PARTIAL


def test_the_papers_policy_alternates_when_distortion_is_steady_and_rests_when_it_falls():
    assert levels(PaperScheduler(), [0.2] * 6) == "pkpkpk"
    assert levels(PaperScheduler(), [0.5 * 0.9**n for n in range(8)]) == "p" * 8


def test_two_key_frames_in_a_row_need_distortion_to_double():
    assert levels(PaperScheduler(), [0.2, 0.2, 0.39, 0.1]) == "pkpp"
    assert levels(PaperScheduler(), [0.2, 0.2, 0.41, 0.1]) == "pkkp"


@pytest.mark.parametrize(("period", "expected"), [(1, "kkkkkk"), (2, "pkpkpk"), (3, "ppkppk")])
def test_fixed_period(period, expected):
    assert levels(FixedPeriod(period), [0.1] * 6) == expected
    assert levels(FixedPeriod(period, Level.CARRY), [0.1] * 6) == expected.replace("p", "c")


def test_per_frame_pruning_and_always_key():
    assert levels(SCHEDULERS["per-frame"](), [0.1, 0.9]) == "pp"
    assert not SCHEDULERS["per-frame"].reuses
    assert levels(SCHEDULERS["always-key"](), [0.0, 0.0]) == "kk"


def test_drift_budget_has_three_levels():
    scheduler = DriftBudget(key_above=0.5, partial_above=0.2)
    assert levels(scheduler, [0.1, 0.3, 0.3], drifts=[0.1, 0.3, 0.6]) == "cpk"
    assert levels(DriftBudget(key_above=0.5), [0.1, 0.4, 0.6]) == "cck"


def test_drift_budget_ends_a_run_however_quiet():
    assert levels(DriftBudget(longest=4), [0.0] * 9) == "ccckccckc"


def test_a_budget_of_nothing_is_the_base_network_wherever_anything_changed():
    assert levels(DriftBudget(key_above=0), [0.01] * 4) == "kkkk"


def test_names_and_options_are_checked():
    assert make_scheduler("fixed", period=3, between="carry") == FixedPeriod(3, Level.CARRY)
    with pytest.raises(SettingsError, match="drift, paper, fixed"):
        make_scheduler("sometimes")
    with pytest.raises(SettingsError, match="fixed has no setting 'periode'; it has period, between"):
        make_scheduler("fixed", periode=3)
    with pytest.raises(SettingsError, match="between is one of key, partial, carry; got 'carried'"):
        make_scheduler("fixed", between="carried")
    with pytest.raises(SettingsError, match="key_above of scheduler drift is a number; got 'much'"):
        make_scheduler("drift", key_above="much")
    assert FixedPeriod(3, "carry") == FixedPeriod(3, Level.CARRY)
    assert FixedPeriod(3, "carry").between is Level.CARRY
    with pytest.raises(SettingsError, match="between key frames is one of key, partial, carry; got 'carried'"):
        FixedPeriod(3, "carried")
    for period in (0, 2.5):
        with pytest.raises(SettingsError, match="whole number"):
            FixedPeriod(period)
    with pytest.raises(SettingsError, match="0 or more"):
        DriftBudget(key_above=-1)


def test_key_frames_that_do_not_depend_on_the_frame_are_planned():
    foreseen = [n for n in range(6) if FixedPeriod(3).foresee(Memory(n))]
    assert foreseen == [2, 3, 4, 5]
    assert SCHEDULERS["always-key"]().foresee(AFTER_FIRST_FRAME)
    assert DriftBudget(longest=2).foresee(Memory(1))
    assert levels(DriftBudget(0.3), [0.125, 0.25, 0.0]) == "cck"  # 0.25 and once more 0.125 would be too much
    assert levels(DriftBudget(0.3), [0.125, 0.15, 0.2]) == "ccc"
    assert levels(DriftBudget(0.3, partial_above=0.2), [0.19, 0.21, 0.1], drifts=[0.19, 0.21, 0.1]) == "ckc"
    assert not PaperScheduler().foresee(Memory(99))


def test_first_memory():
    assert Memory(0, math.inf) == AFTER_FIRST_FRAME


def test_only_schedulers_with_partial_frames_need_masks():
    assert PaperScheduler().refreshes
    assert FixedPeriod(3).refreshes
    assert not FixedPeriod(3, Level.CARRY).refreshes
    assert not DriftBudget().refreshes
    assert DriftBudget(partial_above=0.1).refreshes
    assert not SCHEDULERS["always-key"]().refreshes
