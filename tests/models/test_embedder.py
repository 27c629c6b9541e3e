from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rag.embedding import Matrix
from rag.errors import ConfigError, ModelNotFoundError, NotTextError
from rag.models import Embedder, ResolvedModel
from rag.models.load import load_embedder

TEXTS = ["The harbour is 14 m deep.", "Boats lie in the harbour.", "", "Ölpreis – 50 €", "sand " * 40]


@pytest.fixture(scope="module")
def embedder(minilm: ResolvedModel) -> Embedder:
    return Embedder(minilm.name, batch_tokens=64)


def test_vectors_equal_those_of_sentence_transformers(embedder: Embedder, minilm: ResolvedModel) -> None:
    vectors = embedder.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), embedder.dimension) == (len(TEXTS), 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    expected = load_embedder(minilm).encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_no_texts(embedder: Embedder) -> None:
    assert embedder.encode([]).shape == (0, 384)
    matrix, owners = embedder.encode_windows([])
    assert matrix.shape == (0, 384)
    assert owners.shape == (0,)
    assert embedder.token_counts([]) == []


def test_token_counts_and_limit(embedder: Embedder) -> None:
    assert embedder.max_tokens == 254
    assert embedder.token_counts(["sand", "sand sand", "", "sand " * 900]) == [1, 2, 0, 900]


def test_a_long_text_is_the_normalised_mean_of_its_windows(embedder: Embedder) -> None:
    long = "sand " * 900 + "the harbour is 14 m deep"
    short, whole = embedder.encode(["boats", long])
    mean = embedder.encode_windows([long])[0].mean(axis=0)
    np.testing.assert_allclose(whole, mean / np.linalg.norm(mean), atol=1e-5)
    np.testing.assert_allclose(short, embedder.encode(["boats"])[0], atol=1e-6)


def test_words_past_the_window_count(embedder: Embedder) -> None:
    question = "Tell me, after all of this, " + "sand and gravel and " * 80
    cats, trains, plain = embedder.encode(
        [question + "what do cats eat?", question + "when do trains leave?", question]
    )
    assert min(embedder.token_counts([question])) > 256
    fish, timetable = embedder.encode(["Kittens feed on fish.", "The train departs at noon."])
    assert cats @ fish > max(plain @ fish, trains @ fish) + 0.05
    assert trains @ timetable > max(plain @ timetable, cats @ timetable) + 0.05


def test_windows_find_the_tail_of_a_long_text(embedder: Embedder) -> None:
    long = "sand " * 900 + "the harbour is 14 m deep"
    texts = [long, "boats", ""]
    matrix, owners = embedder.encode_windows(texts)
    assert owners.tolist() == [0, 0, 0, 0, 1, 2]  # 906 tokens, 254 wide, 222 further each time
    query = embedder.encode(["harbour depth"])[0]
    similarity = matrix @ query
    assert similarity[:4].argmax() == 3
    assert similarity[3] > similarity[:3].max() + 0.2


def test_windows_of_short_texts_are_the_texts(embedder: Embedder) -> None:
    matrix, owners = embedder.encode_windows(TEXTS)
    assert owners.tolist() == list(range(len(TEXTS)))
    np.testing.assert_allclose(matrix, embedder.encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize("overlap", [-1, 254])
def test_bad_overlap(embedder: Embedder, overlap: int) -> None:
    with pytest.raises(ConfigError, match=f"overlap must be at least 0 and below 254 tokens, given {overlap}"):
        embedder.encode_windows(["a"], overlap)


def test_threads_get_the_serial_answer(minilm: ResolvedModel) -> None:
    """Case 5: two truncation settings on one fast tokenizer used to fail with "Already borrowed"."""
    fresh = Embedder(minilm.name)  # loaded by whichever thread comes first
    jobs = [TEXTS[index % len(TEXTS)] + f" {index}" for index in range(32)]

    def work(index: int) -> Matrix:
        fresh.token_counts(jobs)
        return fresh.encode([jobs[index]]) if index % 2 else fresh.encode_windows([jobs[index]], index)[0]

    with ThreadPoolExecutor(32) as pool:
        parallel = list(pool.map(work, range(32)))
    np.testing.assert_allclose(np.concatenate(parallel), fresh.encode(jobs), atol=1e-5)


def test_bad_input(embedder: Embedder) -> None:
    with pytest.raises(NotTextError, match=r"texts\[1\] must be a string, got int"):
        embedder.encode(["a", 3])  # type: ignore[list-item]
    with pytest.raises(NotTextError, match="got one string"):
        embedder.encode("a text")
    with pytest.raises(ConfigError, match="batch_tokens must be at least 1, given 0"):
        Embedder(batch_tokens=0)
    with pytest.raises(ModelNotFoundError, match="kind llm, not embedder"):
        Embedder("smollm2-135m").encode(["a"])


def test_lone_surrogate_is_read_as_a_question_mark(embedder: Embedder) -> None:
    np.testing.assert_allclose(embedder.encode(["bad \ud800 text"]), embedder.encode(["bad ? text"]), atol=1e-6)
