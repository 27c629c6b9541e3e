from __future__ import annotations

import pytest

from rag.budget import Budget
from rag.compressors.llmlingua import LlmLingua
from rag.errors import BudgetError, ConfigError
from rag.models import ResolvedModel
from rag.types import Document, Query

QUERY = Query("How deep is the harbour of Kestrel Point?")
TOWN = "The town is old and was founded in 1203 by monks, who kept bees. Rain falls daily on its slate roofs. " * 4
HARBOUR = "The harbour of Kestrel Point was dredged in 1961 to a depth of 14 metres. Boats rest there at night. "
DOCUMENTS = [Document("town", TOWN), Document("blank", " \n"), Document("harbour", HARBOUR + TOWN)]


def test_it_runs_over_several_windows_with_the_embedded_model_and_tells_what_it_reached(smollm2: ResolvedModel) -> None:
    pytest.importorskip("llmlingua")
    baseline = LlmLingua(smollm2.name)
    whole = baseline.compress(QUERY, DOCUMENTS, Budget(1.0, "ratio"))
    assert whole.text == f"{TOWN}\n\n{HARBOUR + TOWN}"
    assert whole.tokens > 200  # more than one of the package's windows
    kept = baseline.compress(QUERY, DOCUMENTS, Budget(0.6, "ratio"))
    assert 0 < kept.tokens < whole.tokens
    assert kept.limit == int(0.6 * whole.tokens)
    assert kept.within == (kept.tokens <= kept.limit)
    assert set(kept.text) <= set(whole.text)
    assert baseline.compress(QUERY, [Document("blank", " ")], Budget(5)).text == ""
    with pytest.raises(BudgetError, match="given a budget of 50 characters"):
        baseline.compress(QUERY, DOCUMENTS, Budget(50, "characters"))


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ConfigError, match="accepted: llmlingua, longllmlingua"):
        LlmLingua(method="llmlingua2")  # type: ignore[arg-type]


def test_it_is_asked_at_least_once() -> None:
    with pytest.raises(ConfigError, match="attempts must be at least 1, given 0"):
        LlmLingua(attempts=0)
