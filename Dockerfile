# syntax=docker/dockerfile:1
# The image, for who has Docker rather than buildah. image/program.sh builds the program, as for `make image`, so flags are
# the same by construction; the bytes differ where another compiler or C library is in the base.
#   docker build -t copyrator --build-arg VERSION="$(release/version.sh)" --build-arg REVISION="$(git rev-parse HEAD)" \
#     --build-arg CREATED="$(git log -1 --format=%cI)" .
# By its name, since no registry was in reach to read a digest from. No release is made by this file. To have the same base
# again, write what this prints behind the name, after an @:
#   docker buildx imagetools inspect rust:1.95.0-slim-bookworm --format '{{.Manifest.Digest}}'
FROM rust:1.95.0-slim-bookworm AS build
# That one, without the parts for developers that rust-toolchain.toml asks for.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY image/tools.sh image/
RUN image/tools.sh cargo-auditable
COPY . .
ARG PROFILE=release
RUN program=$(PROFILE=$PROFILE image/program.sh) && cp "$program" /copyrator

# No certificates: the API server's CA is mounted, and nothing else is called.
FROM scratch
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="copyrator" \
      org.opencontainers.image.description="ConfigMaps and Secrets that appear in every namespace, are valid, and stay fresh" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="https://github.com/copyrator/copyrator" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.created="$CREATED"
COPY --from=build --chmod=755 /copyrator /copyrator
# Numeric, so that runAsNonRoot can be checked.
USER 65532:65532
ENTRYPOINT ["/copyrator"]
