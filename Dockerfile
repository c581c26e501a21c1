# syntax=docker/dockerfile:1
# The image holds one static binary and nothing else, with the flags of image/program.sh, which needs no Docker:
# `make image`. For who has Docker, at the repository's root:
#   docker build -t copyrator .
FROM rust:1.95-slim-bookworm AS build
RUN cargo install --locked cargo-auditable@0.7.7
WORKDIR /src
COPY . .
# Naming the target keeps the flag away from build scripts and procedural macros, which cannot be static.
ENV CARGO_INCREMENTAL=0 \
    RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=/src=/src --remap-path-prefix=/usr/local/cargo=/cargo" \
    CFLAGS="-ffile-prefix-map=/usr/local/cargo=/cargo"
RUN target="$(rustc -vV | sed -n 's/^host: //p')" \
 && cargo auditable build --release --locked --target "$target" --package copyrator --bin copyrator \
 && cp "target/$target/release/copyrator" /copyrator

# No certificates either: the API server's CA is mounted, and nothing else is called.
FROM scratch
COPY --from=build /copyrator /copyrator
# Numeric, so that runAsNonRoot can be checked.
USER 65532:65532
ENTRYPOINT ["/copyrator"]
