# The command line, as a user without rights:
#   docker build -t guardband .
#   docker run --rm -v "$PWD":/data guardband calibrate model.onnx --data calibration.csv --targets u --out band
FROM python:3.11-slim AS build
WORKDIR /source
COPY . .
RUN pip install --no-cache-dir build && python -m build --wheel --outdir /wheels

FROM python:3.11-slim
# --build-arg PIP_EXTRA_INDEX_URL=... is where a torch without CUDA is found; the usual one is gigabytes larger.
ARG PIP_EXTRA_INDEX_URL
RUN pip install --no-cache-dir torch==2.13.0
COPY --from=build /wheels /wheels
COPY .ci/constraints.txt /wheels/
RUN pip install --no-cache-dir -c /wheels/constraints.txt "$(echo /wheels/*.whl)[export,tables]" \
    && useradd --create-home --uid 1000 guardband
ENV OMP_NUM_THREADS=1 MPLBACKEND=Agg MPLCONFIGDIR=/tmp/matplotlib
USER guardband
WORKDIR /data
ENTRYPOINT ["guardband"]
CMD ["--help"]
