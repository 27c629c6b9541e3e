"""``rag index`` as a user runs it: over files, interrupted and started again, checked and rebuilt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import tiny
from processes import heed_interrupts
from transformers import AutoTokenizer

from rag.attention.disk import BlockStore
from rag.attention.engine import AttentionEngine
from rag.attention.types import AttentionSpec
from rag.cli import main
from rag.config import Settings
from rag.models.resolve import ResolvedModel
from rag.resources import load_engine
from rag.types import Document, Query


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def index(capsys, monkeypatch):
    """Runs the command in this process, through the same entry point as the shell's ``rag``."""

    def run(*arguments: object, **variables: str) -> Done:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["rag", "index", *map(str, arguments)])
            for name, value in variables.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as left:
                main()
        return Done(int(left.value.code or 0), *capsys.readouterr())

    return run


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


def test_a_corpus_is_indexed_skipped_and_checked_damaged_refused_and_rebuilt(tmp_path, model, index):
    file, store = corpus(tmp_path, 20), tmp_path / "store"
    first = index(file, "--blocks", store, "--model", model)
    assert (first.code, first.err) == (0, "")
    assert first.out.startswith("20 documents: 20 blocks (")
    assert first.out.endswith("0 skipped, there already\n")

    corpus(tmp_path, 25)
    second = index(file, "--no-progress", RAG_MODEL=str(model), RAG_ENGINE__STORE=str(store))
    assert second.out.startswith("25 documents: 5 blocks ("), second.err
    assert second.out.endswith("20 skipped, there already\n")
    whole = index("--verify", store)
    assert whole.code == 0
    assert f"{store}: 25 blocks" in whole.out

    settings = Settings(model=str(model), engine={"store": store}, device="cpu")
    assert Settings(**settings.to_dict()) == settings
    engine = load_engine(settings)
    assert isinstance(engine, AttentionEngine)
    documents = [Document(str(n), json.loads(line)["text"]) for n, line in enumerate(file.read_text().splitlines())]
    engine.precompute([], store)  # nothing to do, and nothing refused: model and settings are the same
    assert engine.attend(Query("How deep?"), documents, AttentionSpec()).cached_blocks == 25

    damaged = sorted(store.glob("*.safetensors"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    for arguments in (["--verify", store], [file, "--blocks", store, "--model", model]):
        refused = index(*arguments)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("error[artefact_mismatch]")
        assert str(damaged) in refused.err
        assert len(refused.err.splitlines()) == 1
    again = index(file, "--blocks", store, "--model", model, "--rebuild")
    assert again.out.startswith("25 documents: 20 blocks ("), again.err
    dropped = sorted(store.glob("*.safetensors"))[0]
    dropped.write_bytes(b"")
    rebuilt = index("--verify", store, "--rebuild")
    assert rebuilt.code == 0
    assert f"dropped: {dropped}" in rebuilt.out
    assert not dropped.exists()


def test_compacting_frees_what_was_stored_deeper_later(tmp_path, model, index):
    file, store = corpus(tmp_path, 4), tmp_path / "store"
    for depth in (1, 3):
        assert index(file, "--blocks", store, "--model", model, "--depth", depth).code == 0
    done = index("--compact", store)
    assert (done.code, done.err) == (0, "")
    assert " MiB freed; 4 blocks in " in done.out
    assert len(list(store.glob("*.safetensors"))) == 1
    assert index(file, "--blocks", store, "--model", model, "--depth", 3).out.endswith("4 skipped, there already\n")
    refused = index("--compact", store, "--rebuild")
    assert refused.code == 2
    assert "accepted beside it: nothing" in refused.err


def test_an_interrupt_leaves_a_store_to_go_on_from_and_says_so(tmp_path, model, index):
    count = 30_000
    file, store = corpus(tmp_path, count), tmp_path / "store"
    arguments = ["index", str(file), "--blocks", str(store), "--model", str(model), "--depth", "2"]
    command = [sys.executable, "-c", "from rag.cli import main; main()", *arguments]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1", "RAG_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=one_thread, preexec_fn=heed_interrupts
    )
    deadline = time.monotonic() + 120
    while not list(store.glob("*.safetensors")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b""), err.decode()
    assert b"the same command goes on from there" in err
    assert b"Traceback" not in err
    found = BlockStore(store)
    assert found.verify() == {}
    assert 0 < len(found) < count

    corpus(tmp_path, len(found) + 10)
    rest = index(*arguments[1:])
    assert rest.out.startswith(f"{len(found) + 10} documents: 10 blocks ("), rest.err
    assert f"{len(found)} skipped" in rest.out


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
def test_an_error_is_one_line_that_says_what_is_accepted(arguments, code, parts, tmp_path, monkeypatch, index):
    monkeypatch.chdir(tmp_path)
    done = index(*arguments)
    assert (done.code, done.out) == (code, "")
    assert [part for part in parts if part not in done.err] == []
    assert len(done.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_store_of_another_model_is_refused_with_expected_and_found(tmp_path, model, index):
    file, store = corpus(tmp_path, 3), tmp_path / "store"
    assert index(file, "--blocks", store, "--model", model).code == 0
    meta = json.loads((store / "meta.json").read_text())
    (store / "meta.json").write_text(json.dumps(meta | {"model": "another"}))
    refused = index(file, "--blocks", store, "--model", model)
    assert refused.code == 1
    assert f"expected model {meta['model']}, found another" in refused.err
