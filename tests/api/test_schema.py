"""The service keeps to its OpenAPI document, whatever it is sent: schemathesis, over the real models.

Three phases: a case for every bound that the document tells (coverage), random requests that keep to it or break it
(fuzzing), and requests that use what others made (stateful). ``make fuzz`` sends many more of the last two.

schemathesis' engine runs them, not its pytest plugin: under pytest 9.2 the plugin's fixtures fail, and all operations
of a module have one node id, of which xdist runs one.

It does not ask for events; what `POST /v1/context` answers as a stream is held to the JSON answer of the same body.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from event_stream import events
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.failures import Failure, ServerError, format_failures
from schemathesis.engine import events as engine_events
from schemathesis.engine import from_schema
from schemathesis.engine.recorder import ScenarioRecorder
from schemathesis.openapi.checks import RejectedPositiveData
from starlette.testclient import TestClient

from rag.api.app import create_app
from rag.api.connection import EVENTS, TIMEOUT_HEADER
from rag.api.keys import new_key
from rag.api.schemas import StageEvent
from rag.config import Settings
from rag.pipeline import Pipeline

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
"""Requests per operation, and sequences, that are new each time; 0 for a few that are always the same."""

# Several, since some are deleted on the way.
CORPORA = ["port", "quay", "pier", "mole"]

# What JSON Schema cannot tell: rules between fields, and what the texts or the model decide.
UNTOLD = {"duplicate_ids", "impossible_budget", "index", "dimensions"}


@pytest.fixture
def api(pipeline: Pipeline, harbour: list[Any]) -> schemathesis.BaseSchema:
    """The document of a service that asks for a key, holds corpora, and has room for many more."""
    key, digest = new_key()
    scopes = ("infer", "corpora:read", "corpora:write", "metrics")
    settings = Settings(
        server={"keys": [{"name": "fuzz", "sha256": digest, "scopes": scopes}], "corpora": {"count": 100_000}}
    )
    app = create_app(pipeline=Pipeline(settings, engine=pipeline.engine, embedder=pipeline.resources.embedder()))
    authorization = {"Authorization": f"Bearer {key}"}
    config = schemathesis.Config.from_dict(
        {
            "headers": authorization,
            "request-timeout": 120,
            "output": {"sanitization": {"enabled": False}},
            "dictionaries": {"corpora": {"values": CORPORA}},
            "parameters": {"path.name": {"dictionary": "corpora", "probability": 0.5}},
            "generation": {"max-examples": EXAMPLES or 3, "deterministic": not EXAMPLES, "database": "none"},
            "phases": {"examples": {"enabled": False}, "coverage": {"unexpected-methods": ["PATCH", "OPTIONS"]}},
        }
    )
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)
    put = schema["/v1/corpora/{name}"]["PUT"]
    for name in CORPORA:
        case = put.Case(path_parameters={"name": name}, body={"documents": harbour}, media_type="application/json")
        assert case.call(headers=authorization).status_code == 201
    schema.hook(filter_failure)
    return schema


def filter_failure(_context: Any, failure: Failure, case: Any, response: Any) -> bool:
    """Whether what schemathesis found is a fault."""
    if isinstance(failure, ServerError):
        return response.status_code != 504 or TIMEOUT_HEADER not in (case.headers or {})
    if isinstance(failure, RejectedPositiveData):
        error = response.json().get("error", {})
        return UNTOLD.isdisjoint((error.get("code"), error.get("param")))
    return True


def told(recorder: ScenarioRecorder, config: Any) -> Iterator[str]:
    """Each failed check with the request that shows it."""
    for name, checks in recorder.checks.items():
        for check in checks:
            if check.failure_info is not None:
                response = recorder.interactions[name].response if name in recorder.interactions else None
                failure, curl = check.failure_info.failure, check.failure_info.code_sample
                found = format_failures(case_id=None, response=response, failures=[failure], curl=curl, config=config)
                yield f"{recorder.cases[name].value.operation.label}\n{found}"


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
def test_the_service_keeps_to_its_document(api: schemathesis.BaseSchema) -> None:
    faults: list[str] = []
    answers: dict[str, set[int]] = defaultdict(set)
    for event in from_schema(api).execute():
        match event:
            case engine_events.ScenarioFinished(recorder=recorder):
                faults += told(recorder, api.config.output)
                for name, sent in recorder.interactions.items():
                    if sent.response is not None:
                        answers[recorder.cases[name].value.operation.label].add(sent.response.status_code)
            case engine_events.NonFatalError(label=label, info=info):
                faults.append(f"{label}: {info.format()}")
            case engine_events.FatalError(exception=exception):
                raise exception
    assert not faults, "\n\n".join(faults)
    operations = {operation.ok().label for operation in api.get_all_operations()}
    assert {label for label, statuses in answers.items() if statuses & {200, 201}} == operations


def lasting(answer: dict[str, Any]) -> dict[str, Any]:
    """What another answer to the same body has in common with this one."""
    if "error" in answer:
        return {name: value for name, value in answer["error"].items() if name != "request_id"}
    usage = {name: answer["usage"][name] for name in ("query_tokens", "corpus_tokens", "context_tokens")}
    return {**answer, "id": "", "timings": {}, "stages": [stage["name"] for stage in answer["stages"]], "usage": usage}


def test_a_stream_ends_in_what_is_answered_without(client: TestClient, harbour: list[Any]) -> None:
    operation = schemathesis.openapi.from_dict(client.app.openapi())["/v1/context"]["POST"]  # type: ignore[attr-defined]
    kept, broken = (operation.as_strategy(generation_mode=mode).map(lambda case: case.body) for mode in GenerationMode)
    answered = st.fixed_dictionaries(
        {
            "query": st.sampled_from(["How deep is the harbour?", "Who bakes?", "q " * 50]),
            "documents": st.lists(st.sampled_from([*harbour, {"text": "\U0001f426\u2028"}, "Bread."]), max_size=6),
        },
        optional={"top_n": st.integers(1, 5), "retrieve_k": st.integers(1, 5), "budget": st.integers(1, 40)},
    )
    ends: set[str] = set()

    @hypothesis.settings(
        max_examples=EXAMPLES or 20,
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.one_of(answered, kept, broken))
    def check(body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body)
        sent = {"Content-Type": "application/json"}
        plain = client.post("/v1/context", content=content, headers=sent)
        streamed = client.post("/v1/context", content=content, headers=sent | {"Accept": EVENTS})
        assert plain.status_code < 500
        if streamed.headers["content-type"].startswith(EVENTS):
            assert streamed.status_code == 200
            *stages, (end, last) = events(streamed)
            for name, data in stages:
                assert name == "stage"
                StageEvent.model_validate(data)
            assert end == ("result" if plain.status_code == 200 else "error")
        else:  # refused before any stage
            assert streamed.status_code == plain.status_code >= 400
            end, last = "refused", streamed.json()
        assert lasting(last) == lasting(plain.json())
        ends.add(end)

    check()
    assert {"result", "refused"} <= ends


def test_a_whole_number_may_have_a_point(client: TestClient) -> None:
    documents = [{"id": 7.0, "text": "The harbour is deep."}, {"id": 8, "text": "Boats are blue."}]
    body = {"query": "How deep?", "documents": documents, "top_n": 1.0, "retrieve_k": 2.0}
    reply = client.post("/v1/context", json=body).json()
    assert sorted([reply["results"][0]["id"], reply["dropped"][0]["id"]]) == ["7", "8"]
    assert client.post("/v1/context", json={**body, "top_n": 1.5}).status_code == 422


def test_every_method_of_a_path_is_told(client: TestClient) -> None:
    reply = client.patch("/v1/corpora/port", json={})
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, PUT, DELETE")
    assert reply.json()["error"]["message"].endswith("accepted: GET, PUT, DELETE")
