from __future__ import annotations

import pytest

from rag.errors import InputError
from rag.eval.results_experiments import breakeven, calibration, order_effects


def length(tokens, seconds):
    shares = {"after_reranker": 1, "after_reranker_new": 2, "warm": 4, "cold": 40}
    return {
        "tokens": tokens, "kept": tokens // 5, "prefill_s": 2.5, "saved_s": 2.0,
        **{f"{way}_s": times * seconds for way, times in shares.items()},
        **{f"{way}_share": times * seconds / 2 for way, times in shares.items()},
        **{f"{way}_break_even": 0.8 * tokens / (times * seconds) for way, times in shares.items()},
    }  # fmt: skip


BREAKEVEN = {
    "lengths": [length(1000, 0.015), length(4000, 0.08)],
    "readers": [
        {"name": "the same model", "tokens_per_second": 412.4, "estimated": False, "saved_s": [1.94, 7.76]},
        {"name": "70B", "tokens_per_second": 1e5, "estimated": True, "saved_s": [0.008, 0.032]},
    ],
}


def test_breakeven_has_a_row_per_length_and_a_row_per_reader():
    text = breakeven(BREAKEVEN, {})
    first, second = (block.splitlines() for block in text.split("\n\n") if block.startswith("|"))
    assert (len(first), len(second)) == (2 + 4 * 2, 2 + 2)
    # Compression takes 0.015 s of the 2 s saved: it pays for readers below 800 / 0.015 tokens a second.
    assert first[2] == "| after the reranker, documents known | 1,000 | 200 | 2.00 | 0.015 | 0.75 % | 53,000 |"
    assert first[-1] == "| alone, documents new | 4,000 | 800 | 2.00 | 3.2 | 160 % | 1,000 |"
    assert second[0] == "| reader | tokens/s | 1,000 | 4,000 |"
    assert second[2] == "| the same model | 410 | +1.91 | +7.6 |"
    assert second[3] == "| 70B (estimate) | 100,000 | -0.022 | -0.128 |"
    assert breakeven(BREAKEVEN, {"part": "readers"}).splitlines() == second
    with pytest.raises(InputError, match="part 'rows'; accepted: lengths, readers"):
        breakeven(BREAKEVEN, {"part": "rows"})


def test_nothing_saved_has_no_share():
    row = length(100, 0.1) | {"saved_s": 0.0, "warm_share": None}
    assert "| 0.00 | 0.4 | - |" in breakeven({"lengths": [row], "readers": []}, {"part": "lengths"})


def effect(name, difference, p, verdict):
    interval = [difference - 0.1, difference + 0.1]
    return {"name": name, "mean": -1.5 + difference, "difference": difference, "interval": interval,
            "p_randomisation": p / 2, "p_t": p, "p_holm": p, "verdict": verdict}  # fmt: skip


def test_order_has_a_table_of_places_and_one_of_orderings():
    record = {
        "questions": 100,
        "documents": 5,
        "shuffle": {"mean": -1.5, "spread": 0.25},
        "summary": "no ordering was shown to be better than random order (100 questions)",
        "places_against_their_mean": [effect("1", 0.3, 0.002, "better"), effect("2", -0.3, 0.8, "no difference shown")],
        "orderings_against_shuffle": [effect("attention-sort", -0.02, 0.61, "no difference shown")],
    }
    places, orderings, outcome = order_effects(record, {"labels": {"attention-sort": "attention sorting"}}).split(
        "\n\n"
    )
    assert places.splitlines()[0] == (
        "| 100 questions of 5 documents: answer's document at place | nats per token | against all places | 95 % | p "
        "| shown |"
    )
    assert places.splitlines()[2] == "| 1 | -1.200 | +0.300 | +0.200 to +0.400 | 0.002 | better |"
    assert orderings.splitlines()[2] == (
        "| attention sorting | -1.520 | -0.020 | -0.120 to +0.080 | 0.61 | no difference shown |"
    )
    assert outcome.endswith("±0.250 between random orders of one question; " + record["summary"] + ".")


def test_calibration_shows_before_and_after_and_what_abstaining_does():
    def quality(auc, ece):
        return {"count": 40, "base_rate": 0.5, "auc": auc, "brier": 0.2, "brier_of_base_rate": 0.25, "ece": ece}

    entry = {
        "held_out": "folds of queries",
        "collection": "scifact",
        "answerable": quality(0.8, 0.05),
        "answerable_before": quality(0.75, 0.31),
        "relevance": quality(None, 0.02),
        "relevance_before": quality(None, 0.2),
        "threshold": 0.4,
        "caught": 0.5,
        "given_up": None,
    }
    probabilities, abstaining, plot = calibration({"held_out": [entry]}, {"plot": "calibration.png"}).split("\n\n")
    assert probabilities.splitlines()[2:] == [
        "| folds of queries | scifact | answerable | 40 | 0.500 | 0.750 | 0.800 | 0.310 | 0.050 | 0.200 | 0.200 "
        "| 0.250 |",
        "| folds of queries | scifact | relevance | 40 | 0.500 | - | - | 0.200 | 0.020 | 0.200 | 0.200 | 0.250 |",
    ]
    assert abstaining.splitlines()[2] == "| folds of queries | scifact | 0.400 | 50.0% | - |"
    assert plot.endswith("(calibration.png)")
    assert "calibration.png" not in calibration({"held_out": [entry]}, {})
