"""The block store: what is read is what was written, whatever happens to the process or the files."""

from __future__ import annotations

import copy
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from rag.attention.disk import BlockStore, StoreIdentity
from rag.attention.engine import AttentionEngine, Decoder
from rag.attention.heads import shipped
from rag.attention.passes import LayerStack
from rag.attention.precompute import shipped_depth
from rag.attention.segments import Segment
from rag.attention.store import StoredBlock
from rag.attention.template import DEFAULT_TEMPLATE
from rag.attention.types import AttentionSpec, Head
from rag.errors import ArtefactError, ConfigError
from rag.models.resolve import ResolvedModel
from rag.types import Document, Query

IDENTITY = StoreIdentity("model-a", "frame-a", "float32")
QUERY = Query("How deep is the harbour?")
SPEC = AttentionSpec(rows=("all",), calibrated=True)
WORDS = ["harbour", "ships", "tide", "whale", "oil", "lamp", "keeper", "dunes", "wind", "bread", "quay", "nets"]
DOCUMENTS = tuple(
    Document(str(number), " ".join(WORDS[(number * step) % 12] for step in range(1, 8 + number % 9)) + f" {number}.")
    for number in range(40)
)
PRECISIONS = ("float32", "float16", "bfloat16", "int8")


def block(seed: int, depth: int, tokens: int, precision: str = "float32") -> StoredBlock:
    torch.manual_seed(seed)
    stack = LayerStack(torch.randn(depth, 2, tokens, 4), torch.randn(depth - 1, 2, tokens, 4))
    return StoredBlock.of(stack, precision)


def tensors(stored: StoredBlock) -> list[torch.Tensor]:
    parts = (stored.keys.data, stored.keys.scale, stored.values.data, stored.values.scale)
    return [part for part in parts if part is not None]


def same(found: StoredBlock, written: StoredBlock) -> bool:
    """The layers of ``found`` are those of ``written``."""
    pairs = list(zip(tensors(found), tensors(written), strict=True))
    return all(a.dtype == b.dtype and torch.equal(a, b[: len(a)]) for a, b in pairs)


def new_store(folder: Path, *segments: dict[bytes, StoredBlock], identity: StoreIdentity = IDENTITY) -> BlockStore:
    store = BlockStore.open_or_create(folder, identity)
    with store.writing():
        for blocks in segments:
            store.append(blocks)
    return store


@pytest.fixture(scope="module")
def tokenizer(smollm2: ResolvedModel):
    return AutoTokenizer.from_pretrained(smollm2.path)


@pytest.fixture(scope="module")
def model_folder(tokenizer, tmp_path_factory) -> Path:
    """A tiny model as a folder, for processes of their own."""
    folder = tmp_path_factory.mktemp("model")
    tiny.decoder("llama").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def make(tokenizer):
    """Makes engines that read each block alone, so that their numbers do not depend on what else is read."""
    model = tiny.decoder("llama")

    def engine(fingerprint: str = "tiny", **options) -> AttentionEngine:
        options = {"window_tokens": 96, "overlap_tokens": 8, "batch_tokens": 1, "split": tiny.split_words} | options
        return AttentionEngine(Decoder(model, tokenizer, "tiny", fingerprint), **options)

    return engine


# ---- the store alone -------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    precision=st.sampled_from(PRECISIONS),
    segments=st.lists(
        st.dictionaries(st.binary(min_size=1, max_size=3), st.tuples(st.integers(1, 4), st.integers(1, 6)), min_size=1),
        max_size=4,
    ),
)
def test_the_deepest_copy_of_a_block_comes_back_exactly_as_it_was_written(precision, segments):
    written = [
        {key: block(seed, *shape, precision) for seed, (key, shape) in enumerate(segment.items())}
        for segment in segments
    ]
    deepest: dict[bytes, StoredBlock] = {}
    for key, stored in itertools.chain.from_iterable(segment.items() for segment in written):
        if key not in deepest or stored.depth > deepest[key].depth:
            deepest[key] = stored
    with tempfile.TemporaryDirectory() as name:
        identity = replace(IDENTITY, precision=precision)
        new_store(Path(name), *written, identity=identity)
        store = BlockStore(Path(name), identity)
        assert len(store) == len(deepest)
        assert store.verify() == {}
        for key, expected in deepest.items():
            assert store.depth(key) == expected.depth
            assert store.get(key, expected.depth + 1) is None
            for depth in range(1, expected.depth + 1):
                found = store.get(key, depth)
                assert found is not None
                assert (found.depth, len(found.values.data)) == (depth, depth - 1)
                assert same(found, expected)
        assert store.get(b"none", 1) is None


@settings(max_examples=25, deadline=None)
@given(
    segments=st.lists(
        st.dictionaries(st.binary(min_size=1, max_size=1), st.integers(1, 4), min_size=1, max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_compacting_keeps_every_deepest_copy_and_nothing_else(segments):
    written = [{key: block(7 * n + d, d, 3, "int8") for key, d in one.items()} for n, one in enumerate(segments)]
    with tempfile.TemporaryDirectory() as name:
        store = new_store(Path(name), *written, identity=replace(IDENTITY, precision="int8"))
        keys = {key for one in written for key in one}
        before = {key: store.get(key, store.depth(key)) for key in keys}
        size = store.nbytes
        assert store.compact() == size - store.nbytes
        assert store.compact() == 0
        for seen in (store, BlockStore(Path(name))):
            assert {key for segment in seen._segments.values() for key in segment.depths} == keys
            assert sum(len(segment.depths) for segment in seen._segments.values()) == len(keys)
            assert seen.verify() == {}
            assert all(same(seen.get(key, before[key].depth), before[key]) for key in keys)


@settings(max_examples=150, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), precision=st.sampled_from(["float32", "int8"]))
def test_any_flipped_bit_is_found_and_never_read_as_a_block(place, bit, precision):
    written = {bytes([number]): block(number, 2, 3, precision) for number in range(2)}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "s.safetensors"
        Segment.write(path, written)
        content = bytearray(path.read_bytes())
        content[int(place * len(content))] ^= 1 << bit
        path.write_bytes(content)
        with pytest.raises(ArtefactError, match=path.name):
            Segment(path).verify()


@pytest.mark.parametrize("damage", ["cut", "longer", "empty", "noise"])
def test_a_damaged_file_is_named_and_dropped_on_request(tmp_path, damage):
    new_store(tmp_path, {b"a": block(1, 3, 5)}, {b"b": block(2, 3, 5)})
    path = sorted(tmp_path.glob("*.safetensors"))[0]
    content = path.read_bytes()
    changed = {"cut": content[:-7], "longer": content + b"x", "empty": b"", "noise": os.urandom(300)}
    path.write_bytes(changed[damage])
    store = BlockStore(tmp_path, IDENTITY)
    assert list(store.damaged) == [path]
    assert store.get(b"a", 3) is None
    assert store.get(b"b", 3) is not None
    with pytest.raises(ArtefactError, match=path.name):
        store.require_whole()
    assert list(store.rebuild()) == [path]
    assert not path.exists()
    store.require_whole()
    with store.writing():
        store.append({b"a": block(1, 3, 5)})
    again = BlockStore(tmp_path, IDENTITY)
    assert (again.depth(b"a"), again.depth(b"b"), again.verify()) == (3, 3, {})


@pytest.mark.parametrize("field", ["model", "frame", "precision", "layout", "format"])
def test_a_store_made_with_something_else_is_refused_with_expected_and_found(tmp_path, field):
    new_store(tmp_path, {b"a": block(1, 3, 5)})
    other = replace(IDENTITY, **{field: 99 if field == "layout" else "other"})
    message = f"expected {field} {getattr(other, field)}, found {getattr(IDENTITY, field)}"
    for opened in (BlockStore, BlockStore.open_or_create):
        with pytest.raises(ArtefactError, match=message):
            opened(tmp_path, other)


def test_a_folder_that_is_no_store_is_refused(tmp_path):
    with pytest.raises(ArtefactError, match=r"no block store in .*meta\.json"):
        BlockStore(tmp_path, IDENTITY)
    for content in ("", "[1]", "{", json.dumps({"format": "rag.blocks/1"})):
        (tmp_path / "meta.json").write_text(content)
        with pytest.raises(ArtefactError, match=r"meta\.json"):
            BlockStore(tmp_path)
    (tmp_path / "meta.json").unlink()
    Segment.write(tmp_path / "blocks-00000000.safetensors", {b"a": block(1, 3, 5)})
    with pytest.raises(ArtefactError, match=r"meta\.json is missing"):
        BlockStore.open_or_create(tmp_path, IDENTITY)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ArtefactError, match="cannot make"):
        BlockStore.open_or_create(file, IDENTITY)


def test_readers_leave_unfinished_files_alone_and_the_next_writer_removes_them(tmp_path):
    new_store(tmp_path, {b"a": block(1, 3, 5)})
    leftover = tmp_path / "blocks-00000001.tmp"
    leftover.write_bytes(b"half a segm")
    store = BlockStore(tmp_path, IDENTITY)
    assert (len(store), store.damaged, leftover.exists()) == (1, {}, True)
    with store.writing():
        assert not leftover.exists()


def test_a_reader_sees_what_another_process_added_after_a_refresh(tmp_path):
    writer = new_store(tmp_path, {b"a": block(1, 3, 5)})
    reader = BlockStore(tmp_path, IDENTITY)
    with writer.writing():
        writer.append({b"b": block(2, 3, 5)})
    assert reader.get(b"b", 3) is None
    reader.refresh()
    assert reader.get(b"b", 3) is not None


# ---- the engine over a store -----------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", PRECISIONS)
def test_results_from_disk_equal_computed_results(tmp_path, make, precision):
    computed = make(cache_precision=precision).attend(QUERY, DOCUMENTS, SPEC)
    report = make(cache_precision=precision).precompute(DOCUMENTS, tmp_path, segment_blocks=16)
    assert (report.documents, report.blocks, report.skipped) == (40, 40, 0)
    assert report.tokens == computed.encoded_tokens
    assert report.bytes == sum(path.stat().st_size for path in tmp_path.glob("*.safetensors"))
    assert len(list(tmp_path.glob("*.safetensors"))) == 3
    engine = make(cache_precision=precision, store=tmp_path)
    read = engine.attend(QUERY, DOCUMENTS, SPEC)
    assert torch.equal(read.rows["all"], computed.rows["all"])
    assert torch.equal(read.calibration["all"], computed.calibration["all"])
    assert (read.encoded_tokens, read.cached_blocks) == (0, 40)
    engine.attend(QUERY, DOCUMENTS, SPEC)
    stats = engine.cache_stats()
    assert (stats.disk_hits, stats.hits, stats.misses, stats.disk_blocks) == (40, 40, 0, 40)


def test_queries_write_nothing(tmp_path, make):
    make().precompute(DOCUMENTS[:4], tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    seen = make(store=tmp_path).attend(QUERY, DOCUMENTS[:6], SPEC)
    assert seen.cached_blocks == 4
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_a_second_run_skips_what_is_there_and_doubles_are_computed_once(tmp_path, make):
    engine = make()
    twice = (*DOCUMENTS[:5], Document("again", DOCUMENTS[0].text), Document("empty", " "))
    first = engine.precompute(twice, tmp_path)
    assert (first.documents, first.blocks, first.skipped) == (7, 5, 1)
    second = engine.precompute(iter(DOCUMENTS[:8]), tmp_path)
    assert (second.documents, second.blocks, second.skipped) == (8, 3, 5)
    third = engine.precompute(DOCUMENTS[:8], tmp_path)
    assert (third.blocks, third.skipped, third.tokens, third.bytes) == (0, 8, 0, 0)


def test_progress_goes_up_to_all_documents(tmp_path, make):
    calls: list[tuple[int, int]] = []
    make().precompute(DOCUMENTS, tmp_path, segment_blocks=16, progress=lambda *call: calls.append(call))
    assert calls == sorted(calls)
    assert calls[-1] == (40, 40)
    assert len(set(calls)) > 20


def test_a_deeper_copy_takes_the_place_of_a_shallow_one(tmp_path, make):
    some, low = DOCUMENTS[:6], AttentionSpec((Head(1, 2),))
    make().precompute(some, tmp_path, depth=1)
    assert make(store=tmp_path).attend(QUERY, some, AttentionSpec((Head(0, 3),))).cached_blocks == 6
    make().precompute(some, tmp_path, depth=2)
    shallow = make(store=tmp_path)
    assert shallow.attend(QUERY, some, low).cached_blocks == 6
    assert shallow.attend(QUERY, some, SPEC).cached_blocks == 0
    report = make().precompute(some, tmp_path, depth=3)
    assert (report.blocks, report.skipped) == (6, 0)
    assert make().precompute(some, tmp_path, depth=2).skipped == 6
    deep = make(store=tmp_path)
    deep.attend(QUERY, some, low)
    low_bytes = deep.cache_stats().bytes
    assert deep.attend(QUERY, some, AttentionSpec((Head(2, 0),))).cached_blocks == 6
    assert deep.cache_stats().bytes * 3 == low_bytes * 5  # 2 layers of keys and 1 of values, then 3 and 2


def test_a_damaged_block_is_computed_anew_logged_and_never_fatal(tmp_path, make, caplog):
    expected = make().attend(QUERY, DOCUMENTS, SPEC)
    make().precompute(DOCUMENTS, tmp_path, segment_blocks=16)
    flipped, cut, _ = sorted(tmp_path.glob("*.safetensors"))
    content = bytearray(flipped.read_bytes())
    content[-100] ^= 64
    flipped.write_bytes(content)
    cut.write_bytes(cut.read_bytes()[:-10])
    with caplog.at_level(logging.WARNING):
        engine = make(store=tmp_path)
        seen = engine.attend(QUERY, DOCUMENTS, SPEC)
    assert torch.equal(seen.rows["all"], expected.rows["all"])
    assert seen.cached_blocks == 40 - 16 - 1
    assert [caplog.text.count(path.name) for path in (flipped, cut)] == [1, 1]
    with pytest.raises(ArtefactError, match=cut.name):
        make().precompute(DOCUMENTS, tmp_path)
    report = make().precompute(DOCUMENTS, tmp_path, rebuild=True)
    assert (report.blocks, report.skipped) == (32, 8)
    assert make(store=tmp_path).attend(QUERY, DOCUMENTS, SPEC).cached_blocks == 40
    assert BlockStore(tmp_path).verify() == {}


def test_a_file_that_vanishes_under_a_reader_is_logged_and_computed_anew(tmp_path, make, caplog):
    make().precompute(DOCUMENTS[:4], tmp_path)
    engine = make(store=tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    path.unlink()
    seen = engine.attend(QUERY, DOCUMENTS[:4], SPEC)
    assert seen.cached_blocks == 0
    assert path.name in caplog.text


def test_what_was_computed_before_an_interrupt_is_stored(tmp_path, make):
    def stop(_: int, blocks: int) -> None:
        if blocks == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make().precompute(DOCUMENTS, tmp_path, progress=stop)
    report = make().precompute(DOCUMENTS, tmp_path)
    assert (report.blocks, report.skipped) == (35, 5)


def test_another_model_or_prompt_is_refused_and_other_words_around_the_query_are_not(tmp_path, make):
    make().precompute(DOCUMENTS[:2], tmp_path)
    with pytest.raises(ArtefactError, match="expected model other, found tiny"):
        make(fingerprint="other", store=tmp_path)
    with pytest.raises(ArtefactError, match="expected precision int8, found float32"):
        make(cache_precision="int8").precompute(DOCUMENTS[:2], tmp_path)
    half = make().decoder
    half = replace(half, model=copy.deepcopy(half.model).bfloat16())
    with pytest.raises(ArtefactError, match="expected model tiny in bfloat16, found tiny"):
        AttentionEngine(half, store=tmp_path, cache_precision="float32", window_tokens=96, overlap_tokens=8)
    for part in ("introduction", "document_end"):
        with pytest.raises(ArtefactError, match="expected frame"):
            make(template=replace(DEFAULT_TEMPLATE, **{part: " x"}), store=tmp_path)
    reworded = make(template=replace(DEFAULT_TEMPLATE, stem="Question:"), store=tmp_path)
    assert reworded.attend(QUERY, DOCUMENTS[:2], SPEC).cached_blocks == 2


def test_what_is_not_accepted(tmp_path, make):
    for depth in (0, 5):
        with pytest.raises(ConfigError, match=f"depth {depth}; accepted: 1 to 4"):
            make().precompute(DOCUMENTS, tmp_path, depth=depth)
    with pytest.raises(ConfigError, match="segment_blocks 0"):
        make().precompute(DOCUMENTS, tmp_path, segment_blocks=0)
    with pytest.raises(ConfigError, match="'causal'; accepted: the block layout"):
        make(layout="causal").precompute(DOCUMENTS, tmp_path)
    with pytest.raises(ConfigError, match="'causal'; accepted: the block layout"):
        make(layout="causal", store=tmp_path)
    with pytest.raises(ArtefactError, match="no block store"):
        make(store=tmp_path / "none")


def test_the_default_depth_covers_every_shipped_head():
    lists = [item for item in shipped() if item.layout == "block"]
    assert lists
    for item in lists:
        others = [other for other in lists if (other.fingerprint, other.template) == (item.fingerprint, item.template)]
        deepest = max(head.layer for other in others for head in other.heads)
        assert shipped_depth(item.fingerprint, item.template) == deepest + 1
    assert shipped_depth("unknown", "unknown") is None


# ---- several processes -----------------------------------------------------------------------------------------

PRECOMPUTE = """
import sys
from pathlib import Path
from rag.attention.engine import AttentionEngine
from rag.types import Document
import tiny
model, store, count = sys.argv[1:]
engine = AttentionEngine(model, window_tokens=96, overlap_tokens=8, batch_tokens=1, split=tiny.split_words, threads=1)
documents = [Document(str(n), f"the harbour is {n} metres deep at the {n % 7} pier") for n in range(int(count))]
report = engine.precompute(documents, Path(store), segment_blocks=4)
print(report.blocks, report.skipped)
"""


def start(model: Path, store: Path, count: int) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(Path(tiny.__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", PRECOMPUTE, str(model), str(store), str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
    )


def test_a_kill_leaves_a_valid_store_from_which_the_next_run_goes_on(tmp_path, model_folder):
    count, stored = 300, 0
    for _ in range(2):
        process = start(model_folder, tmp_path, count)
        deadline = time.monotonic() + 120
        while len(list(tmp_path.glob("*.safetensors"))) < stored // 4 + 5 and time.monotonic() < deadline:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        store = BlockStore(tmp_path)
        assert store.verify() == {}
        assert stored < len(store) < count
        stored = len(store)
    out, _ = start(model_folder, tmp_path, count).communicate(timeout=300)
    assert out.split() == [str(count - stored), str(stored)]
    store = BlockStore(tmp_path)
    assert (len(store), store.verify(), list(tmp_path.glob("*.tmp"))) == (count, {}, [])


def test_two_processes_share_the_work_of_one_store(tmp_path, model_folder):
    processes = [start(model_folder, tmp_path, 200) for _ in range(2)]
    counts = [tuple(map(int, process.communicate(timeout=300)[0].split())) for process in processes]
    assert [blocks + skipped for blocks, skipped in counts] == [200, 200]
    assert sum(blocks for blocks, _ in counts) == 200
    store = BlockStore(tmp_path)
    assert (len(store), store.verify()) == (200, {})
    assert sum(len(Segment(path).depths) for path in tmp_path.glob("*.safetensors")) == 200
