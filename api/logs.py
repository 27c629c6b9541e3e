"""How the service logs: lines for people, or JSON objects for machines, with the id of the request in hand."""

from __future__ import annotations

import json
import logging
import time
from typing import Any, Literal

from rag.api.access import current_id


class JsonLines(logging.Formatter):
    """One JSON object per record: time (UTC), level, logger, message, request_id, and the record's ``fields``."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        entry: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if name := current_id.get():
            entry["request_id"] = name
        entry |= getattr(record, "fields", {})
        if record.exc_info:
            entry["stack"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def logging_config(style: Literal["text", "json"]) -> dict[str, Any]:
    """A `logging.config.dictConfig` for the service: everything to standard error."""
    formatters = {
        "text": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"},
        "json": {"()": "rag.api.logs.JsonLines"},
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatters[style]},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": {name: {"handlers": ["stderr"], "level": "INFO", "propagate": False} for name in ("rag", "uvicorn")},
    }
