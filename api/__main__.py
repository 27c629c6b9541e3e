"""``python -m rag.api``: serve with the configuration in force (``RAG_CONFIG``, ``RAG_*``)."""

from rag.api.server import serve
from rag.config import Settings

if __name__ == "__main__":
    serve(Settings.load())
