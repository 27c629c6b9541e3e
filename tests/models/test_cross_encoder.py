"""The pair scorer on a tiny random cross-encoder: the real code path, weights of a megabyte or two."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from tiny_models import save_cross_encoder, save_decoder

from rag.errors import ConfigError, ModelNotFoundError, QueryTooLongError, UnsupportedModelError
from rag.models import ResolvedModel
from rag.models.cross_encoder import PairScorer

QUERY = "How deep is the harbour?"
TEXTS = ("The harbour is fourteen metres deep.", "Rye bread keeps for a week.", "", "Boats.")
LONG = " ".join(f"Gull number {i} sat on the wall of the harbour." for i in range(40))


@pytest.fixture(scope="module")
def folder(minilm: ResolvedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_cross_encoder(minilm.path, tmp_path_factory.mktemp("cross-encoder"))


@pytest.fixture(scope="module")
def scorer(folder: Path) -> PairScorer:
    return PairScorer(str(folder), batch_size=3)


def test_scores_are_those_of_the_library(folder: Path, scorer: PairScorer) -> None:
    from sentence_transformers import CrossEncoder

    found = scorer.score(QUERY, TEXTS)
    reference = CrossEncoder(str(folder), device="cpu").predict([(QUERY, text) for text in TEXTS])
    np.testing.assert_allclose(found.scores, reference, atol=1e-6)
    assert found.owners.tolist() == [0, 1, 2, 3]
    assert np.ptp(found.scores) > 1e-3  # the scores differ: being equal to the library's means something


def test_every_token_of_a_long_text_is_read(scorer: PairScorer) -> None:
    tokenizer = scorer._model().tokenizer
    windows = scorer._windows(QUERY, [TEXTS[0], LONG])
    assert max(map(len, windows["input_ids"])) <= scorer.max_tokens == 64
    assert windows["overflow_to_sample_mapping"][:2] == [0, 1]
    asked = len(tokenizer(QUERY, add_special_tokens=False)["input_ids"]) + 2
    parts = [ids[asked:-1] for ids in windows["input_ids"][1:]]
    assert len(parts) > 5
    whole = tokenizer(LONG, add_special_tokens=False, truncation=False)["input_ids"]
    joined = list(parts[0])
    for part in parts[1:]:
        overlap = next(n for n in range(len(part), 0, -1) if joined[-n:] == part[:n])
        joined += part[overlap:]
    assert joined == whole


def test_a_batch_gives_what_each_text_gives_alone(scorer: PairScorer) -> None:
    texts = [LONG, *TEXTS]
    together = scorer.score(QUERY, texts)
    alone = [scorer.score(QUERY, [text]).scores for text in texts]
    np.testing.assert_allclose(together.scores, np.concatenate(alone), atol=1e-6)
    assert scorer.score(QUERY, []).scores.shape == (0,)


def test_many_threads_share_one_scorer(scorer: PairScorer) -> None:
    expected = scorer.score(QUERY, TEXTS).scores
    failures: list[BaseException] = []

    def work(text: str) -> None:
        try:
            np.testing.assert_allclose(scorer.score(QUERY, TEXTS).scores, expected, atol=1e-6)
            scorer.score(QUERY, [text])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(LONG[: 50 * n],)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_query_without_room_for_a_document_is_refused(scorer: PairScorer) -> None:
    with pytest.raises(QueryTooLongError, match=r"query has 60 tokens; accepted by .* reads 64 .*: up to 45"):
        scorer.score("deep " * 60, TEXTS)


def test_what_is_no_cross_encoder_is_refused_not_given_random_heads(minilm: ResolvedModel, tmp_path: Path) -> None:
    for path, reason in (
        (minilm.path, r"its weights lack classifier\.bias, classifier\.weight"),
        (save_decoder(minilm.path, tmp_path / "decoder"), r"its weights lack score\.weight"),
        (save_cross_encoder(minilm.path, tmp_path / "three", labels=3), "it has 3 labels"),
    ):
        with pytest.raises(UnsupportedModelError, match=f"is no cross-encoder: {reason}; accepted: "):
            PairScorer(str(path)).score(QUERY, TEXTS)


def test_models_that_are_not_there(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(ModelNotFoundError, match=r"cross-encoder/absent' cannot be had from the hub \(offline mode"):
        PairScorer("cross-encoder/absent", offline=True).score(QUERY, TEXTS)
    with pytest.raises(ModelNotFoundError, match=r"^unknown cross-encoder 'absent'; accepted: a folder with a config"):
        PairScorer("absent").score(QUERY, TEXTS)
    with pytest.raises(ModelNotFoundError, match="'minilm' is a model of kind embedder, not cross-encoder"):
        PairScorer("minilm").score(QUERY, TEXTS)
    shutil.copytree(folder, tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").unlink()
    with pytest.raises(ModelNotFoundError, match="cannot be loaded"):
        PairScorer(str(tmp_path / "broken")).score(QUERY, TEXTS)
    with pytest.raises(ConfigError, match="batch_size must be at least 1, given 0"):
        PairScorer(str(folder), batch_size=0)
