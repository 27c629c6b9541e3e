"""The Dockerfile, the compose file and the Kubernetes example fit the product: names, paths, ports, flags."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from rag.api.app import create_app
from rag.cli.app import app as cli
from rag.config import Settings
from rag.models.catalog import catalog
from rag.pipeline import Pipeline

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
PORT = Settings().server.port


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / name).read_text("utf-8")))


def instructions(kind: str) -> list[str]:
    return re.findall(rf"^{kind} +(.*)$", DOCKERFILE, re.MULTILINE)


@pytest.fixture(scope="module")
def paths() -> set[str]:
    return set(create_app(pipeline=Pipeline(Settings())).openapi()["paths"])


@pytest.fixture(scope="module")
def flags() -> set[str]:
    serve = typer.main.get_command(cli).commands["serve"]  # type: ignore[attr-defined]
    return {flag for parameter in serve.params for flag in parameter.opts}


def environment() -> dict[str, str]:
    (given,) = instructions("ENV")
    return dict(pair.split("=", 1) for pair in shlex.split(given))


def test_the_image_holds_every_package_and_runs_as_nobody_special() -> None:
    mapped = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-dir"]
    folders = {folder.partition("/")[0] for folder in mapped.values()}
    sources = {source for line in instructions("COPY") if "--from" not in line for source in line.split()[:-1]}
    assert folders <= sources
    admitted = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[:1] == "!"}
    assert admitted == sources
    assert all((ROOT / source).exists() for source in sources)
    (user,) = instructions("USER")
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)


def test_the_image_configures_what_there_is_to_configure(monkeypatch: pytest.MonkeyPatch, paths: set[str]) -> None:
    given = environment()
    for name, value in given.items():
        if name.startswith("RAG_"):
            monkeypatch.setenv(name, value)
    settings = Settings()
    assert (settings.server.host, settings.server.port, settings.server.log_format) == ("0.0.0.0", PORT, "json")
    assert given["RAG_MODEL_STORE"] in instructions("VOLUME")
    assert str(settings.server.port) in instructions("EXPOSE")
    (check,) = instructions("HEALTHCHECK")
    path = re.search(rf"http://127\.0\.0\.1:{PORT}(/[\w/]+)'", check)
    assert path is not None
    assert path[1] in paths
    models = re.search(r'MODELS="([^"]+)"', DOCKERFILE)
    assert models is not None
    assert {Settings().model, Settings().embedder} == set(models[1].split()) <= set(catalog())


def test_compose_starts_the_service_and_a_prometheus_that_scrapes_it(
    monkeypatch: pytest.MonkeyPatch, paths: set[str]
) -> None:
    (compose,) = documents("compose.yaml")
    rag, prometheus = compose["services"]["rag"], compose["services"]["prometheus"]
    assert rag["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    for name, value in rag["environment"].items():
        monkeypatch.setenv(name, value)
    folder = str(Settings().server.corpora.folder)
    assert {volume.partition(":")[2] for volume in rag["volumes"]} == {environment()["RAG_MODEL_STORE"], folder}
    assert folder in DOCKERFILE
    source, target, _ = prometheus["volumes"][0].split(":")
    assert f"--config.file={target}" in prometheus["command"]
    (scrape,) = documents(source)[0]["scrape_configs"]
    assert scrape["metrics_path"] in paths
    assert scrape["static_configs"] == [{"targets": [f"rag:{PORT}"]}]


def test_the_kubernetes_example_asks_what_the_service_answers(tmp_path: Path, paths: set[str], flags: set[str]) -> None:
    config, deployment, service = documents("deploy/kubernetes.yaml")
    assert [item["kind"] for item in (config, deployment, service)] == ["ConfigMap", "Deployment", "Service"]
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    assert container["ports"] == [{"name": "http", "containerPort": PORT}]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe["path"] for probe in probes.values()} <= paths
    assert probes["livenessProbe"]["path"] != probes["readinessProbe"]["path"]
    assert pod["metadata"]["annotations"]["prometheus.io/path"] in paths
    assert {mount["name"] for mount in container["volumeMounts"]} == {item["name"] for item in pod["spec"]["volumes"]}
    assert environment()["RAG_MODEL_STORE"] in {mount["mountPath"] for mount in container["volumeMounts"]}
    flag, path = container["args"]
    assert flag in flags
    ((name, text),) = config["data"].items()
    assert path == f"/etc/rag/{name}"
    (tmp_path / name).write_text(text, "utf-8")
    assert Settings.load(tmp_path / name).server.queue == 64
    assert {"--workers", "--device", "--config"} <= flags
