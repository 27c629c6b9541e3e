from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.compressors.ordering.attnrank import AttnRank
from rag.compressors.ordering.profiling import basin_layer, curve, is_basin
from rag.compressors.ordering.slot_profile import Curve, SlotProfile, choose_profile, shipped
from rag.errors import ArtefactError, ConfigError, InputError
from rag.types import Document, Query, ScoredDocument


def profile(**curves: tuple[float, ...]) -> SlotProfile:
    """Curves by "n3" for three documents."""
    return SlotProfile(
        model="m",
        fingerprint="f" * 16,
        template="t" * 16,
        layers=(0, 1),
        data="hand-made",
        curves={
            int(name[1:]): Curve(prompts=100, attention=values, error=(0.0,) * len(values))
            for name, values in curves.items()
        },
    )


BASIN = profile(n3=(1.2, 0.6, 1.2), n5=(1.4, 0.8, 0.6, 0.8, 1.4))


def test_measured_counts_are_given_as_they_are() -> None:
    assert BASIN.slots(3) == pytest.approx([1.2, 0.6, 1.2])
    assert BASIN.slots(5) == pytest.approx([1.4, 0.8, 0.6, 0.8, 1.4])


def test_a_count_between_two_is_mixed_in_proportion() -> None:
    # Half of three stretched to four (1.2 0.8 0.8 1.2) and half of five (1.4 2/3 2/3 1.4), then made to mean 1.
    mixed = np.array([1.3, (0.8 + 0.8 - 0.2 / 3) / 2, (0.8 + 0.8 - 0.2 / 3) / 2, 1.3])
    assert BASIN.slots(4) == pytest.approx(mixed / mixed.mean())


@given(st.integers(1, 60))
def test_every_count_keeps_the_shape(count: int) -> None:
    slots = BASIN.slots(count)
    assert len(slots) == count
    assert slots.mean() == pytest.approx(1)
    assert slots == pytest.approx(slots[::-1])
    assert count < 3 or slots.argmin() in {(count - 1) // 2, count // 2}


def test_no_slot_is_an_error() -> None:
    with pytest.raises(InputError, match="asked for 0"):
        BASIN.slots(0)


def test_a_profile_comes_back_from_its_file_and_fits_its_model_only(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    BASIN.save(file)
    assert SlotProfile.load(file) == BASIN
    assert choose_profile(file, "f" * 16, "t" * 16) == BASIN
    with pytest.raises(ArtefactError, match=f"expected model {'f' * 16}, found other"):
        choose_profile(file, "other", "t" * 16)
    with pytest.raises(ArtefactError, match="expected prompt template"):
        choose_profile(file, "f" * 16, "other")
    with pytest.raises(ConfigError, match="`rag order profile`"):
        choose_profile(None, "f" * 16, "t" * 16)


@pytest.mark.parametrize(
    "damage",
    [
        {"curves": {}},
        {"curves": {"3": {"prompts": 9, "attention": [1, 1], "error": [0, 0]}}},
        {"curves": {"2": {"prompts": 9, "attention": [1, float("nan")], "error": [0, 0]}}},
        {"curves": {"2": {"prompts": 9, "attention": [1, -1], "error": [0, 0]}}},
        {"format": "rag.slots/2"},
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, damage: dict[str, object]) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({**json.loads(BASIN.model_dump_json()), **damage}))
    with pytest.raises(ArtefactError, match=r"profile\.json is not a slot profile"):
        SlotProfile.load(file)


def test_a_basin_has_both_ends_above_all_between() -> None:
    assert is_basin((1.4, 0.8, 0.6, 0.8, 1.4))
    assert not is_basin((1.4, 1.38, 0.6, 0.8, 1.4))
    assert not is_basin((0.4, 0.8, 1.0, 1.2, 1.6))
    assert not is_basin((1.0, 1.0))


def test_the_shallowest_layer_has_to_show_the_basin_for_every_count() -> None:
    rising, basin = np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.1, 0.3])
    wide = np.array([0.2, 0.1, 0.1, 0.2])
    three = np.stack([np.stack([rising, basin, basin, basin])] * 2)
    four = np.stack([np.stack([wide, np.arange(4) + 1.0, wide, wide])] * 2)
    assert basin_layer({3: three, 4: four}) == 2
    assert basin_layer({3: three[:, :1]}) is None
    assert basin_layer({2: three[:, :, :2]}) is None


def test_every_prompt_counts_alike_whatever_its_length() -> None:
    short, long = np.array([[0.2, 0.6]]), np.array([[0.003, 0.001]])
    made = curve(np.stack([short, long]), (0, 0))
    assert made.attention == pytest.approx([1.0, 1.0])
    assert made.error == pytest.approx([0.5, 0.5])
    assert made.prompts == 2


class Described:
    """An engine's account of itself."""

    def info(self) -> dict[str, str]:
        return {"fingerprint": "f" * 16, "template": "t" * 16}


def test_attnrank_puts_the_best_where_the_reader_looks(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    profile(n4=(0.9, 0.5, 0.6, 2.0)).save(file)
    ranked = [ScoredDocument(Document(str(rank), "text"), -rank, rank) for rank in (1, 2, 3, 4)]
    given_ = [ranked[i] for i in (2, 0, 3, 1)]
    order = AttnRank(Described(), profile=file).order(Query("q"), given_)  # type: ignore[arg-type]
    assert [item.document.id for item in order] == ["2", "4", "3", "1"]
    assert AttnRank(Described(), profile=file).order(Query("q"), []) == []  # type: ignore[arg-type]


def test_attnrank_of_another_reader_needs_its_fingerprint(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    BASIN.model_copy(update={"fingerprint": "a" * 16}).save(file)
    with pytest.raises(ArtefactError, match="expected model"):
        AttnRank(Described(), profile=file)  # type: ignore[arg-type]
    assert AttnRank(Described(), profile=file, reader="a" * 16)  # type: ignore[arg-type]


def test_the_shipped_profiles_are_measured_on_enough_prompts() -> None:
    assert [item.model for item in shipped()] == ["smollm2-135m"]
    assert all(of.prompts >= 100 for item in shipped() for of in item.curves.values())
