# The server, from a checkout: docker build -t molspec . && docker run -p 8000:8000 molspec
# An index of CPU builds of torch is given by --build-arg PIP_EXTRA_INDEX_URL=...
FROM python:3.12-slim-bookworm AS build
ARG PIP_EXTRA_INDEX_URL
RUN apt-get update && apt-get install -y --no-install-recommends g++ cmake ninja-build \
    && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN MOLSPEC_CUDA=OFF pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim-bookworm
ARG PIP_EXTRA_INDEX_URL
# RDKit draws with these.
RUN apt-get update && apt-get install -y --no-install-recommends libxrender1 libxext6 libexpat1 \
    && rm -rf /var/lib/apt/lists/* && useradd --create-home molspec
RUN --mount=from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(ls /wheels/*.whl)[server,planning]"
USER molspec
ENV OMP_NUM_THREADS=1
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", \
    "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/readyz')"]
ENTRYPOINT ["molspec", "serve"]
CMD ["--host", "0.0.0.0"]
