"""The quality of passages, whatever the question: how likely a language model finds their words.

Text that was damaged on its way into a corpus (OCR, encoding, a parser that lost the columns of a table) is improbable
to a model of the language. What is measured is kept as JSON and used to demote passages, never to delete them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rag.artefacts import Artefact
from rag.compressors.tokens import plain_copy
from rag.digests import text_digest
from rag.errors import ConfigError, ModelOutputError
from rag.models.catalog import DEFAULT_LLM
from rag.types import Document

if TYPE_CHECKING:
    import torch

Progress = Callable[[int, int], None]

_WINDOW = 512
_BATCH = 1024


class PassageQuality(Artefact, frozen=True):
    """Mean log-likelihood per token of every passage of a corpus, and the quantile of them that counts as low.

    ``scores`` are by `digest` of the passage's text: a passage that changed, or is new, has none and is never low until
    it is measured. ``threshold`` is the ``quantile`` of the corpus's scores.

    After QualT5 (Chang et al., SIGIR 2024), which trains a model to judge passages and prunes 25 to 30 % of a corpus;
    here nothing is trained, the measure is a decoder's likelihood alone, and what is low is demoted. It finds damaged
    text, not useless text: that it agrees with QualT5 is UNVERIFIED.
    """

    refusal: ClassVar[str] = "holds no passage quality"

    format: Literal["rag.quality/1"] = "rag.quality/1"
    model: str
    fingerprint: str
    quantile: float
    threshold: float
    scores: dict[str, float]

    @classmethod
    def measure(
        cls,
        documents: Iterable[Document],
        *,
        model: str = DEFAULT_LLM,
        device: str = "cpu",
        quantile: float = 0.1,
        earlier: PassageQuality | None = None,
        progress: Progress | None = None,
    ) -> PassageQuality:
        """Measure a corpus; blank passages are left out.

        Args:
            documents: the corpus.
            model: a causal language model by name (see `rag.models.resolve`).
            device: a torch device.
            quantile: which share of the corpus is low.
            earlier: what was measured before; texts that it holds, by the same model, are not read again.
            progress: called as ``progress(measured, all)`` after each batch.

        Raises:
            ConfigError: a quantile outside [0, 1), or no passage with any text.
        """
        from rag.models import fingerprint, resolve

        if not 0 <= quantile < 1:
            raise ConfigError(f"quantile must be from 0 to below 1, given {quantile}")
        found = resolve(model, kind="llm")
        mark = fingerprint(found.path)
        texts = {text_digest(item.text).hex(): item.text for item in documents if item.text.strip()}
        if not texts:
            raise ConfigError("quality of a corpus without any text: at least one passage must have some")
        known = earlier.scores if earlier is not None and earlier.fingerprint == mark else {}
        scores = {key: known[key] for key in texts if key in known}
        missing = [key for key in texts if key not in scores]
        if missing:
            measured = _likelihoods([texts[key] for key in missing], found, device, progress)
            scores |= dict(zip(missing, measured, strict=True))
        threshold = float(np.quantile(list(scores.values()), quantile))
        return cls(model=model, fingerprint=mark, quantile=quantile, threshold=threshold, scores=scores)

    def low(self, documents: Sequence[Document]) -> NDArray[np.bool_]:
        """Which documents (n,) score below the threshold; one that was not measured does not."""
        scores = [self.scores.get(text_digest(document.text).hex(), self.threshold) for document in documents]
        return np.array(scores, dtype=np.float64) < self.threshold


@lru_cache(maxsize=8)
def load_quality(path: Path) -> PassageQuality:
    """`PassageQuality.load`, once per file."""
    return PassageQuality.load(path)


def _likelihoods(texts: Sequence[str], found: Any, device: str, progress: Progress | None) -> list[float]:
    """Mean log-likelihood per token of each text, read to its end in windows of 512 tokens that each start anew."""
    from rag.models.load import load_causal_lm

    model, tokenizer = load_causal_lm(found, device=device)
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    plain = plain_copy(tokenizer.backend_tokenizer)
    encoded = [plain.encode(text, add_special_tokens=False).ids for text in texts]
    windows = [
        (owner, ids[at : at + _WINDOW]) for owner, ids in enumerate(encoded) for at in range(0, len(ids), _WINDOW)
    ]
    windows.sort(key=lambda window: -len(window[1]))  # of like length in a batch: little is padded
    sums = np.zeros(len(texts))
    done = 0
    while done < len(windows):
        batch = windows[done : done + max(1, _BATCH // len(windows[done][1]))]
        for (owner, _), value in zip(batch, _sums(model, [[start, *ids] for _, ids in batch]), strict=True):
            sums[owner] += value
        done += len(batch)
        if progress is not None:
            progress(done, len(windows))
    means = [float(sums[owner] / len(ids)) for owner, ids in enumerate(encoded)]
    if not np.isfinite(means).all():
        raise ModelOutputError(f"{found.name} gave a likelihood that is not a finite number")
    return means


def _sums(model: Any, batch: Sequence[Sequence[int]]) -> list[float]:
    """The summed log-probability of each line's tokens after its first one."""
    import torch

    width = max(map(len, batch))
    ids = torch.tensor([[*line, *[0] * (width - len(line))] for line in batch], device=model.device)
    seen = torch.tensor([[1] * len(line) + [0] * (width - len(line)) for line in batch], device=model.device)
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=ids, attention_mask=seen, use_cache=False).logits[:, :-1].float()
        wanted = logits.gather(2, ids[:, 1:, None])[..., 0] - logits.logsumexp(-1)
        return [float(value) for value in (wanted * seen[:, 1:]).sum(1).double()]
