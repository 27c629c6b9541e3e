"""The service keeps to its OpenAPI document, whatever it is sent: schemathesis, over the real models.

Three phases: a case for every bound that the document tells (coverage), random requests that keep to it or break it
(fuzzing), and requests that use what others made (stateful). ``make fuzz`` sends many more of the last two.

schemathesis' engine runs them, not its pytest plugin: under pytest 9.2 the plugin's fixtures fail, and all operations
of a module have one node id, of which xdist runs one.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from schemathesis.core.failures import Failure, ServerError, format_failures
from schemathesis.engine import events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder
from schemathesis.openapi.checks import RejectedPositiveData
from starlette.testclient import TestClient

from rag.api.app import create_app
from rag.api.connection import TIMEOUT_HEADER
from rag.api.keys import new_key
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
            case events.ScenarioFinished(recorder=recorder):
                faults += told(recorder, api.config.output)
                for name, sent in recorder.interactions.items():
                    if sent.response is not None:
                        answers[recorder.cases[name].value.operation.label].add(sent.response.status_code)
            case events.NonFatalError(label=label, info=info):
                faults.append(f"{label}: {info.format()}")
            case events.FatalError(exception=exception):
                raise exception
    assert not faults, "\n\n".join(faults)
    operations = {operation.ok().label for operation in api.get_all_operations()}
    assert {label for label, statuses in answers.items() if statuses & {200, 201}} == operations


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
