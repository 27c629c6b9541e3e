"""``rag index`` as a user runs it: over files, interrupted and started again, checked and rebuilt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny
from transformers import AutoTokenizer

from rag.attention.disk import BlockStore
from rag.attention.engine import AttentionEngine
from rag.config import Settings
from rag.models.resolve import ResolvedModel
from rag.resources import load_engine
from rag.types import Document, Query

RAG = [sys.executable, "-c", "from rag.cli import main; main()"]


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    return kept | {"COLUMNS": "200", "OMP_NUM_THREADS": "1", "RAG_THREADS": "1"} | variables


def index(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*RAG, "index", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment(**variables))


def corpus(folder: Path, count: int) -> Path:
    file = folder / "corpus.jsonl"
    lines = ({"id": str(n), "text": f"The harbour is {n} metres deep at the {n % 7}th pier."} for n in range(count))
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.fixture(scope="module")
def model(smollm2: ResolvedModel, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny.decoder("llama").save_pretrained(folder)
    AutoTokenizer.from_pretrained(smollm2.path).save_pretrained(folder)
    return folder


def test_a_corpus_is_indexed_skipped_and_checked_damaged_refused_and_rebuilt(tmp_path, model):
    file, store = corpus(tmp_path, 20), tmp_path / "store"
    first = index(file, "--blocks", store, "--model", model)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("20 documents: 20 blocks (")
    assert first.stdout.endswith("0 skipped, there already\n")

    corpus(tmp_path, 25)
    second = index(file, "--no-progress", RAG_MODEL=str(model), RAG_ENGINE__STORE=str(store))
    assert second.stdout.startswith("25 documents: 5 blocks ("), second.stderr
    assert second.stdout.endswith("20 skipped, there already\n")
    whole = index("--verify", store)
    assert whole.returncode == 0
    assert f"{store}: 25 blocks" in whole.stdout

    settings = Settings(model=str(model), engine={"store": store}, device="cpu")
    assert Settings(**settings.to_dict()) == settings
    engine = load_engine(settings)
    assert isinstance(engine, AttentionEngine)
    documents = [Document(str(n), json.loads(line)["text"]) for n, line in enumerate(file.read_text().splitlines())]
    engine.precompute([], store)  # nothing to do, and nothing refused: model and settings are the same
    assert engine.attend(Query("How deep?"), documents, tiny_spec()).cached_blocks == 25

    damaged = sorted(store.glob("*.safetensors"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    for arguments in (["--verify", store], [file, "--blocks", store, "--model", model]):
        refused = index(*arguments)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith("error[artefact_mismatch]")
        assert str(damaged) in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    again = index(file, "--blocks", store, "--model", model, "--rebuild")
    assert again.stdout.startswith("25 documents: 20 blocks ("), again.stderr
    dropped = sorted(store.glob("*.safetensors"))[0]
    dropped.write_bytes(b"")
    rebuilt = index("--verify", store, "--rebuild")
    assert rebuilt.returncode == 0
    assert f"dropped: {dropped}" in rebuilt.stdout
    assert not dropped.exists()


def tiny_spec():
    from rag.attention.types import AttentionSpec

    return AttentionSpec()


def test_an_interrupt_leaves_a_store_to_go_on_from_and_says_so(tmp_path, model):
    count = 30_000
    file, store = corpus(tmp_path, count), tmp_path / "store"
    arguments = ["index", str(file), "--blocks", str(store), "--model", str(model), "--depth", "2"]
    process = subprocess.Popen([*RAG, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    deadline = time.monotonic() + 120
    while not list(store.glob("*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert b"the same command goes on from there" in err
    assert b"Traceback" not in err
    found = BlockStore(store)
    assert found.verify() == {}
    assert 0 < len(found) < count

    corpus(tmp_path, len(found) + 10)
    rest = index(*arguments[1:])
    assert rest.stdout.startswith(f"{len(found) + 10} documents: 10 blocks ("), rest.stderr
    assert f"{len(found)} skipped" in rest.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        ([], 2, ["no files given", "--verify FOLDER"]),
        (["x.txt"], 2, ["no block store given", "--blocks FOLDER", "engine.store"]),
        (["x.txt", "--verify", "store"], 2, ["--verify FOLDER", "--rebuild"]),
        (["x.txt", "--blocks", "store"], 2, ["cannot read 'x.txt'"]),
        (["--verify", "store"], 1, ["error[artefact_mismatch]", "no block store in store"]),
    ],
)
def test_an_error_is_one_line_that_says_what_is_accepted(arguments, code, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = index(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert [part for part in parts if part not in done.stderr] == []
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_store_of_another_model_is_refused_with_expected_and_found(tmp_path, model):
    file, store = corpus(tmp_path, 3), tmp_path / "store"
    assert index(file, "--blocks", store, "--model", model).returncode == 0
    meta = json.loads((store / "meta.json").read_text())
    (store / "meta.json").write_text(json.dumps(meta | {"model": "another"}))
    refused = index(file, "--blocks", store, "--model", model)
    assert refused.returncode == 1
    assert f"expected model {meta['model']}, found another" in refused.stderr
