from __future__ import annotations

from pathlib import Path

import pytest

from rag.budget import Budget
from rag.compressors import FirstCompressor
from rag.compressors.quality import PassageQuality
from rag.errors import ArtefactError, ConfigError
from rag.models import ResolvedModel
from rag.types import Document, ScoredDocument

FLUENT = "The harbour was dredged in 1961. Large ships have been able to enter it since then, at any tide."
SCAN = "Th3 h^rb0ur w@s dr cl g3 d ii1 l96l. L@rg3 5hi p5 h @v3 b3 3n @bl e t0 3nt er 1t 5inc e."
DOCUMENTS = [Document("scan", SCAN), Document("fluent", FLUENT), Document("blank", " ")]


@pytest.fixture(scope="module")
def quality(smollm2: ResolvedModel) -> PassageQuality:
    steps: list[tuple[int, int]] = []
    made = PassageQuality.measure(
        DOCUMENTS, model=smollm2.name, quantile=0.5, progress=lambda done, all_: steps.append((done, all_))
    )
    assert steps[-1] == (2, 2)
    return made


def test_damaged_text_is_low_and_what_was_not_measured_is_not(quality: PassageQuality) -> None:
    assert quality.low([*DOCUMENTS, Document("new", SCAN + " ")]).tolist() == [True, False, False, False]
    assert all(value < 0 for value in quality.scores.values())


def test_it_is_kept_as_json_and_only_new_texts_are_read_again(quality: PassageQuality, tmp_path: Path) -> None:
    path = tmp_path / "quality.json"
    quality.save(path)
    again = PassageQuality.measure(
        [Document("moved", FLUENT)],
        model=quality.model,
        earlier=PassageQuality.load(path),
        progress=lambda *_: pytest.fail("read again"),
    )
    assert set(again.scores) < set(quality.scores)
    path.write_text('{"format": "rag.heads/1"}')
    with pytest.raises(ArtefactError, match=r"quality\.json holds no passage quality"):
        PassageQuality.load(path)


def test_low_passages_are_demoted_not_deleted(quality: PassageQuality, tmp_path: Path) -> None:
    path = tmp_path / "quality.json"
    quality.save(path)

    class Words:
        def count_tokens(self, texts: list[str]) -> list[int]:
            return [len(text.split()) for text in texts]

    documents = [ScoredDocument(item, 0.0, rank) for rank, item in enumerate(DOCUMENTS[:2], start=1)]
    plain = FirstCompressor(Words()).compress(None, documents, Budget(9))  # type: ignore[arg-type]
    demoted = FirstCompressor(Words(), quality=path).compress(None, documents, Budget(9))  # type: ignore[arg-type]
    assert plain[0].spans
    assert not demoted[0].spans
    assert demoted[1].text == "The harbour was dredged in 1961."
    everything = FirstCompressor(Words(), quality=path).compress(None, documents, Budget(99))  # type: ignore[arg-type]
    assert [item.text for item in everything] == [SCAN, FLUENT]


def test_bad_settings() -> None:
    with pytest.raises(ConfigError, match="given 1"):
        PassageQuality.measure(DOCUMENTS, quantile=1)
    with pytest.raises(ConfigError, match="without any text"):
        PassageQuality.measure([Document("blank", " ")])
