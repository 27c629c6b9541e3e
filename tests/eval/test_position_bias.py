from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from qa_files import write_qa

from rag.errors import InputError
from rag.eval.collections import load_qa
from rag.eval.position_bias import measure
from rag.models import Embedder


@pytest.fixture
def questions(tmp_path):
    """Three questions, each with the document that answers it."""
    return [
        replace(item, documents=tuple(of for of in item.documents if of.id in item.supporting))
        for item in load_qa(write_qa(tmp_path / "qa.jsonl"))
    ]


class FirstWords:
    """An embedder of our own that reads four words: it must be found to favour beginnings."""

    def encode(self, texts):
        self.texts = getattr(self, "texts", []) + list(texts)
        vectors = np.array([[1.0, "fourteen" in text.split()[:4]] for text in texts], dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_an_embedder_that_reads_the_first_words_only(questions):
    embedder = FirstWords()
    words = lambda texts: [len(text.split()) for text in texts]  # noqa: E731
    found = measure(questions[:2], embedder, words, tokens=40, places=(0, 0.5, 1))
    assert found.questions == 2
    assert found.means[0] != pytest.approx(found.means[2])
    assert found.first_last == pytest.approx(found.means[0] - found.means[2])
    evidence = "The harbour is fourteen metres deep."
    first, middle, last = embedder.texts[1:4]
    assert first.startswith(evidence)
    assert last.endswith(evidence)
    assert 0 < middle.index(evidence) < len(middle) - len(evidence)
    assert sorted(first.split()) == sorted(middle.split()) == sorted(last.split())
    assert 40 <= len(first.split()) - len(evidence.split()) < 55


def test_the_real_embedder_gives_cosines(questions):
    embedder = Embedder()
    found = measure(questions, embedder, embedder.token_counts, tokens=60)
    assert found.places == (0, 0.25, 0.5, 0.75, 1)
    assert all(0 < mean < 1 for mean in found.means)
    assert all(low <= mean <= high for mean, (low, high) in zip(found.means, found.intervals, strict=True))
    assert 0 < found.p_randomisation <= 1


def test_bad_input(questions):
    embedder = FirstWords()
    with pytest.raises(InputError, match="two or more"):
        measure(questions, embedder, len, places=(0.5,))
    with pytest.raises(InputError, match="at least 1, given 0"):
        measure(questions, embedder, len, tokens=0)
    with pytest.raises(InputError, match="no other question"):
        measure(questions[:1], embedder, len)
    with pytest.raises(InputError, match="supporting sentence"):
        measure([replace(questions[0], supporting_sentences=())], embedder, len)
