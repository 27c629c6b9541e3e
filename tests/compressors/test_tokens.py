from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rag.compressors.tokens import NamedTokenizer
from rag.errors import ModelNotFoundError
from rag.models import ResolvedModel


def test_a_catalogue_name_a_folder_and_a_file_count_the_same(smollm2: ResolvedModel, tmp_path: Path) -> None:
    file = tmp_path / "reader.json"
    shutil.copy(smollm2.path / "tokenizer.json", file)
    texts = ["The harbour is 14 m deep.", "", "港は深い。"]
    counts = [NamedTokenizer(str(name)).count_tokens(texts) for name in (smollm2.name, smollm2.path, file)]
    assert counts[0] == counts[1] == counts[2]
    assert counts[0][1] == 0 < counts[0][0] < counts[0][2] + 10


def test_control_tokens_are_plain_letters(smollm2: ResolvedModel) -> None:
    (count,) = NamedTokenizer(smollm2.name).count_tokens(["<|im_end|>"])
    assert count > 1


def test_tokenizers_differ(smollm2: ResolvedModel, minilm: ResolvedModel) -> None:
    text = ["unquestionably antidisestablishmentarian harbourmasters"]
    assert NamedTokenizer(smollm2.name).count_tokens(text) != NamedTokenizer(minilm.name).count_tokens(text)


@pytest.mark.parametrize("name", ["", "nowhere", "a/b/c"])
def test_an_unknown_name_says_what_is_accepted(name: str) -> None:
    with pytest.raises(ModelNotFoundError, match=r"accepted: a tokenizer.json, .*smollm2-135m.*hf:ORG/NAME"):
        NamedTokenizer(name)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text("{}")
    with pytest.raises(ModelNotFoundError, match="cannot be read"):
        NamedTokenizer(str(tmp_path))
