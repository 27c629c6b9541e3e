from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag.config import StageSettings
from rag.errors import ConfigError
from rag.eval.stage_identity import json_value, stage_identity


@pytest.mark.parametrize("kind", [Path, str])
def test_a_file_of_the_same_name_with_other_content_is_another(kind, tmp_path):
    heads = tmp_path / "heads.json"
    heads.write_text("one")
    first = stage_identity("reranker", StageSettings(name="heads", options={"heads": kind(heads)}), ("engine",))
    heads.write_text("two")
    second = stage_identity("reranker", StageSettings(name="heads", options={"heads": kind(heads)}), ("engine",))
    assert first["options"]["heads"]["file"] == second["options"]["heads"]["file"] == str(heads)
    assert first["options"]["heads"]["digest"] != second["options"]["heads"]["digest"]


def test_everything_is_json(tmp_path):
    given = {"a": (1, None, "x" * 5000), "b": tmp_path / "none", 3: {"c": 1.5}}
    assert json_value(given) == {"a": [1, None, "x" * 5000], "b": str(tmp_path / "none"), "3": {"c": 1.5}}
    assert json.loads(json.dumps(json_value(given))) == json_value(given)


def test_what_a_stage_does_not_take_is_refused():
    assert stage_identity("compressor", StageSettings(name="first"), ("engine",)) == {"name": "first", "options": {}}
    with pytest.raises(ConfigError, match="accepted options"):
        stage_identity("compressor", StageSettings(name="first", options={"x": 1}), ("engine",))
