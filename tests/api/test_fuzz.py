"""Whatever a body holds, the answer is a success or tells the client what is wrong: never a failure of ours."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON: Any = st.recursive(
    SCALARS,
    lambda of: st.lists(of, max_size=3) | st.dictionaries(st.text(max_size=5), of, max_size=3),
    max_leaves=6,
)
DOCUMENT = st.text(max_size=40) | st.fixed_dictionaries(
    {"text": st.text(max_size=40)}, optional={"id": JSON, "title": JSON, "metadata": JSON, "extra": JSON}
)
BODY = st.fixed_dictionaries(
    {"query": st.text(max_size=30) | JSON, "documents": st.lists(DOCUMENT, max_size=3) | JSON},
    optional=dict.fromkeys(("top_n", "budget", "retrieve_k", "return_text", "return_sentences", "extra"), JSON),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=BODY | JSON, timeout=st.none() | st.text(st.characters(codec="ascii", exclude_categories=["C"])))
def test_no_body_is_a_server_error(client: TestClient, body: Any, timeout: str | None) -> None:
    headers = {} if timeout is None else {"X-Request-Timeout": timeout}
    reply = client.post("/v1/context", json=body, headers=headers)
    # A body of None is sent as no body at all, without a content type.
    accepted = {200, 400, 422} | ({415} if body is None else set()) | ({504} if timeout is not None else set())
    assert reply.status_code in accepted, reply.text
    if reply.status_code != 200:
        assert set(reply.json()["error"]) >= {"code", "message", "request_id"}
