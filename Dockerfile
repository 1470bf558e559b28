# stmg serve in a container. Build and run:
#   docker build -t stmg .
#   docker run --rm -p 8000:8000 -e STMG_TOKEN=... -v "$PWD/videos:/videos:ro" stmg /videos/drive.mp4 --model lite0-camvid
# Cameras need `--device /dev/video0 --group-add video`. Exported models run without PyTorch: build with --build-arg EXTRAS=serve,openvino.
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
ARG EXTRAS=serve,torch
# CPU wheels of PyTorch: the others bring gigabytes of CUDA.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY --from=build /wheels /wheels
RUN wheel="$(echo /wheels/*.whl)" \
    && pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" "stmg[$EXTRAS] @ file://$wheel" \
    && useradd --create-home stmg
USER stmg
WORKDIR /home/stmg
EXPOSE 8000
# On all addresses of the container a token is required: STMG_TOKEN.
ENTRYPOINT ["stmg", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["--help"]
