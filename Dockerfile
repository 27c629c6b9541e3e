# CPU:   docker build -t rag-context .
# CUDA:  docker build -t rag-context:cuda --build-arg BASE=nvidia/cuda:12.8.1-base-ubuntu24.04 .
#        docker run --gpus all ... rag-context:cuda --device cuda
# With the default models inside, so that a container needs no network: --build-arg MODELS="smollm2-135m minilm"
# An install from elsewhere than pip's default index (a mirror, torch without CUDA's libraries): --build-arg PIP_ARGS=...
#
# Without MODELS the weights are fetched at the first start and kept in the volume /models.

ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/rag
WORKDIR /src
ARG PIP_ARGS=""
# The dependencies first: a change of the code alone does not install them again.
COPY pyproject.toml constraints.txt LICENSE README.md ./
RUN /opt/rag/bin/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > requirements.txt \
 && /opt/rag/bin/pip install --no-cache-dir ${PIP_ARGS} -c constraints.txt -r requirements.txt
COPY rag rag
COPY retrievers retrievers
COPY rerankers rerankers
COPY compressors compressors
COPY api api
COPY eval eval
RUN /opt/rag/bin/pip install --no-cache-dir ${PIP_ARGS} -c constraints.txt --no-deps .

FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 libgomp1 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --user-group --create-home rag \
 && install -d -o rag -g rag /models /corpora
COPY --from=build /opt/rag /opt/rag
ENV PATH=/opt/rag/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    RAG_MODEL_STORE=/models \
    RAG_SERVER__HOST=0.0.0.0 \
    RAG_SERVER__PORT=8484 \
    RAG_SERVER__LOG_FORMAT=json
USER 10001:10001
WORKDIR /home/rag
ARG MODELS=""
RUN for model in ${MODELS}; do rag models fetch "$model"; done
VOLUME /models
EXPOSE 8484
# Alive, not ready: a container that still loads its models must not be restarted for it.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8484/health/live', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["rag", "serve"]
