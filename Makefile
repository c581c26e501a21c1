# Everything a developer runs, by its short name. `make` alone lists the targets.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo demo-rust demo-go check test stories without-cluster doctests other-clusters node bench fuzz fuzz-api build image image-check release-dry-run clean
.PHONY: prerequisites prerequisites-of-fuzz prerequisites-of-fuzz-api prerequisites-of-image prerequisites-of-sbom

# Each story of the control plane waits for its turn by itself (bed/lanes.rs), so all of them may begin.
STORY_THREADS ?= 500
# Other tests of clusters wait more than they compute.
TEST_THREADS ?= 6
# The tests that start no cluster, and those beside the stories that do.
WITHOUT_CLUSTER = $(filter-out control_plane documents,$(basename $(notdir $(wildcard tests/*.rs) $(patsubst %/main.rs,%,$(wildcard tests/*/main.rs)) $(wildcard certs-tool/tests/*.rs))))
OTHER_CLUSTERS = documents real_node $(basename $(notdir $(wildcard tests/*/tests/*.rs)))
# One set of packages everywhere, so that features are the same and nothing is compiled twice; make's jobs are not cargo's.
TESTS = MAKEFLAGS= cargo test --locked --workspace --no-fail-fast
# What `make fuzz` runs, and for how long each.
TARGET ?= cel formats globs lists pem policy review template
SECONDS ?= 60
# What the demo is made of, and where it is then.
DEMO = --package copyrator --package demo --package devcluster
BUILT = $(or $(CARGO_TARGET_DIR),target)/debug
# What the tests that could not run here leave.
SKIPPED = target/real-node/skipped.txt target/previous/skipped.txt target/browser/skipped.txt
STAGE = @printf '\n==> %s\n'

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: prerequisites ## Show what Copyrator does, on a cluster of its own; ARGS=--keep leaves it running
	$(STAGE) 'building Copyrator and, the first time, a Kubernetes beside it (minutes)'
	@cargo build --locked $(DEMO) --bin devcluster
	@$(MAKE) --no-print-directory --jobs 2 demo-rust demo-go
	@$(BUILT)/demo $(ARGS)

# Of the same packages as devcluster above, so that features are the same and no dependency is compiled twice. make's jobs are not cargo's.
demo-rust:
	@MAKEFLAGS= cargo build --locked $(DEMO)

demo-go:
	@$(BUILT)/devcluster build --for-demo >/dev/null

check: prerequisites ## The quick loop: format, lints, and the product's tests that start no cluster
	$(STAGE) 'format'
	@cargo fmt --all --check
	$(STAGE) 'lints'
	@cargo clippy --locked --workspace --all-targets -- -D warnings
	$(STAGE) 'tests without a cluster'
	@$(TESTS) --lib --bins $(WITHOUT_CLUSTER:%=--test %)
	@$(TESTS) --doc
	@$(TESTS) --test documents -- links:: blocks:: output:: every_fence

# One after another: side by side they took as long, at a load of 26 on two cores. A program that fails hides no other.
test: prerequisites ## Everything that must pass: format, lints, unit, router, chart, command-line and control-plane tests
	$(STAGE) 'format'
	@cargo fmt --all --check
	$(STAGE) 'lints'
	@cargo clippy --locked --workspace --all-targets -- -D warnings
	$(STAGE) 'building the tests'
	@$(TESTS) --no-run
	$(STAGE) "the cluster's programs (built once, some seven minutes on two cores)"
	@$(BUILT)/devcluster build >/dev/null
	$(STAGE) 'the version before, from which upgrades are tried (built once, some four minutes)'
	@tests/previous/build.sh >/dev/null || test $$? = 3
	$(STAGE) 'tests (some 14 minutes on two cores)'
	@rm -f $(SKIPPED)
	@$(MAKE) --no-print-directory --keep-going without-cluster doctests other-clusters stories
	@if cat $(SKIPPED) 2>/dev/null | grep -q .; then \
	  printf '\n==> passed, but for what was SKIPPED:\n'; cat $(SKIPPED) 2>/dev/null || true; \
	else printf '\n==> all passed\n'; fi

without-cluster:
	@RUST_TEST_THREADS=$(TEST_THREADS) $(TESTS) --lib --bins $(WITHOUT_CLUSTER:%=--test %)

doctests:
	@$(TESTS) --doc

other-clusters:
	@RUST_TEST_THREADS=$(TEST_THREADS) $(TESTS) $(OTHER_CLUSTERS:%=--test %)

stories:
	@RUST_TEST_THREADS=$(STORY_THREADS) $(TESTS) --test control_plane

node: prerequisites ## The chart on a real node with real pods (needs root and containerd); PROFILE=release ARGS=--record keeps the transcript
	@$(TESTS) --test real_node -- --required $(ARGS)

bench: prerequisites ## Measure against the budgets (docs/benchmarks.md); ARGS=fan-out for one, ARGS=--quick for a minute
	$(STAGE) 'building the release binary (some 10 minutes the first time)'
	@cargo build --locked --release --package copyrator --package benches
	@cargo run --locked --release --quiet --package benches -- $(ARGS)

# As the product is built: the pinned compiler, the same versions of everything, debug assertions beside. There is hardly any unsafe code
# for a sanitizer to look at. 2 MiB of stack are what a thread of the webhook has that judges.
fuzz: prerequisites prerequisites-of-fuzz ## Look for inputs that break it (CONTRIBUTING.md); TARGET=policy for one, SECONDS=60 each
	@cp Cargo.lock tests/fuzz/Cargo.lock
	@ulimit -s 2048; for target in $(TARGET); do \
	  printf '\n==> %s, %s s\n' $$target $(SECONDS); \
	  found=target/fuzz/corpus/$$target; mkdir -p $$found; \
	  recorded=; if [ $$target = review ]; then recorded=tests/reviews; fi; \
	  cargo fuzz run --fuzz-dir tests/fuzz --target-dir target/fuzz --sanitizer none --no-cfg-fuzzing \
	    $$target $$found tests/fuzz/seeds/$$target $$recorded -- -dict=tests/fuzz/words.dict \
	    -max_total_time=$(SECONDS) -max_len=65536 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 || exit 1; \
	done

fuzz-api: SECONDS = 600
fuzz-api: prerequisites prerequisites-of-fuzz-api ## Hold the console's HTTP API to its OpenAPI document with Schemathesis; SECONDS=600
	@cargo build --locked --package copyrator --package devcluster
	@tests/fuzz/api.sh $(SECONDS)

build: prerequisites ## The release binaries: target/release/copyrator and copyrator-certs
	@cargo build --locked --release --package copyrator --package copyrator-certs

image: prerequisites prerequisites-of-image prerequisites-of-sbom ## The container image and its list of parts, in target/image; IMAGE=NAME:TAG PROFILE=dev
	$(STAGE) 'the image (some 10 minutes the first time)'
	@image/build.sh
	$(STAGE) 'what it is made of'
	@image/sbom.sh

image-check: prerequisites prerequisites-of-image ## Whether the last commit gives the same image in two different folders (two whole builds)
	@image/check.sh

release-dry-run: prerequisites prerequisites-of-image prerequisites-of-sbom ## A release as far as this machine goes, and what is left out and why; PROFILE=dev is quick
	@PROFILE=$(or $(PROFILE),release) release/dry-run.sh

clean: ## Remove what was built here; the cluster's programs stay in the user's cache
	@cargo clean

# One line on each thing that is missing, and how to get it.
prerequisites:
	@missing=0; \
	lacks() { echo "missing: $$1: $$2" >&2; missing=1; }; \
	pinned=$$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml); \
	if ! command -v cargo >/dev/null; then lacks 'cargo' "install Rust $$pinned from https://rustup.rs"; \
	elif ! cargo --version >/dev/null 2>&1; then lacks "Rust $$pinned" "run: rustup toolchain install $$pinned"; \
	else case "$$(rustc --version)" in "rustc $$pinned "*) ;; \
	  *) lacks "Rust $$pinned" "rust-toolchain.toml pins it; install rustup from https://rustup.rs, which obeys that";; esac; \
	fi; \
	command -v go >/dev/null || lacks 'go' 'it builds Kubernetes for the tests and the demo; get it from https://go.dev/dl'; \
	command -v cc >/dev/null || lacks 'a C compiler' 'run: apt-get install gcc (or your system'"'"'s like)'; \
	exit $$missing

prerequisites-of-fuzz-api:
	@st --version >/dev/null 2>&1 || { echo 'missing: Schemathesis: run: pipx install schemathesis' >&2; exit 1; }

prerequisites-of-fuzz:
	@cargo fuzz --version >/dev/null 2>&1 || { echo 'missing: cargo-fuzz: run: cargo install cargo-fuzz' >&2; exit 1; }
	@command -v c++ >/dev/null || { echo 'missing: a C++ compiler: run: apt-get install g++' >&2; exit 1; }

prerequisites-of-image:
	@missing=0; \
	lacks() { echo "missing: $$1: run: $$2" >&2; missing=1; }; \
	command -v buildah >/dev/null || lacks buildah 'apt-get install buildah'; \
	cargo auditable --version >/dev/null 2>&1 || lacks cargo-auditable 'image/tools.sh cargo-auditable'; \
	exit $$missing

prerequisites-of-sbom:
	@cargo cyclonedx --version >/dev/null 2>&1 || { echo 'missing: cargo-cyclonedx: run: image/tools.sh cargo-cyclonedx' >&2; exit 1; }
