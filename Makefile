# Everything a newcomer needs: `make demo` and `make test`. Both install what is missing.

PACKAGES := libspandsp-dev pkg-config gcc g++
BENCH_PACKAGES := rt-app stress-ng libdpdk-dev
PREFIX ?= /usr/local
PUNCTUAL := target/release/punctual
# What `make demo` passes on, for example: make demo ARGS="--seconds 15 --json demo.json"
ARGS ?=

.PHONY: demo test soak bench fuzz lint models install deps build

demo: build
	$(PUNCTUAL) demo $(ARGS)

test: deps
	cargo test --workspace --locked

# A million random systems, admitted and then simulated. SOAK_FROM is the first seed, SOAK_SYSTEMS
# how many.
soak: deps
	cargo run --release --locked --package system-tests --bin soak

bench: deps
	@tools/install-packages $(BENCH_PACKAGES)
	cargo bench --package punctual-bench --locked

# Each target for FUZZ_SECONDS, 600 if not said, for example: make fuzz FUZZ_SECONDS=60
fuzz:
	tools/fuzz

lint: deps
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	tools/deny

# The protocol between processes, in every order of its steps (docs/model-checking.md).
models:
	tools/check-models

# The program, the C library and its header: make install PREFIX=/usr
install: build
	cargo build --release --locked --package punctual-capi --package punctual-interpose
	install -D -m 755 $(PUNCTUAL) $(DESTDIR)$(PREFIX)/bin/punctual
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" tools/install-library target/release

build: deps
	cargo build --release --locked --package punctual

deps:
	@tools/install-packages $(PACKAGES)
