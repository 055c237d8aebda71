# Everything a newcomer needs: `make demo` and `make test`. Both install what is missing.

PACKAGES := libspandsp-dev pkg-config gcc
PUNCTUAL := target/release/punctual
# What `make demo` passes on, for example: make demo ARGS="--seconds 15 --json demo.json"
ARGS ?=

.PHONY: demo test bench lint deps build

demo: build
	$(PUNCTUAL) demo $(ARGS)

test: deps
	cargo test --workspace --locked

bench: deps
	cargo bench --package punctual-bench --locked

lint: deps
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	tools/deny

build: deps
	cargo build --release --locked --package punctual

deps:
	@tools/install-packages $(PACKAGES)
