# Everything a newcomer needs: `make demo` and `make test`. Both install what is missing.

PACKAGES := pkg-config gcc g++ make libelf-dev zlib1g-dev
# What the modem takes beside that; `punctual` does without.
MODEM_PACKAGES := libspandsp-dev
# Programs that tests run: a bus of their own, and clients of the modem. Without them those tests are ignored.
TEST_PACKAGES := dbus-bin dbus-daemon iproute2 lrzsz minicom minimodem python3 python3-venv python3-pip
BENCH_PACKAGES := rt-app stress-ng libdpdk-dev
MACHINE_PACKAGES := qemu-system-x86 busybox-static cpio kmod xz-utils iproute2
PREFIX ?= /usr/local
PUNCTUAL := target/release/punctual
MODEM := target/release/punctual-modem
# The C library has a folder of its own: beside the rest of the workspace it would contain what other
# crates need, such as libbpf.
LIBRARY := target/library
BUILD_LIBRARY := cargo build --locked --package punctual-capi --package punctual-interpose --target-dir $(LIBRARY)
# What `make demo` passes on, for example: make demo ARGS="--for 15s --json demo.json"
ARGS ?=
# How long `make soak` has writers send, at most 3600.
WRITERS_SECONDS ?= 600
# How long `make soak` lets hostile clients act, at least 20, and how often it kills each kind of process.
HOSTILE_SECONDS ?= 3600
KILLS ?= 1000
# What else is passed on, for example: make soak-writers WRITERS_ARGS=--awake
WRITERS_ARGS ?=

# Which kernel `make machine` boots: 6.1, 6.1-rt, 6.12 or 6.12-rt.
KERNEL ?= 6.12

# How many of the 41 seeds `make machines-soak` takes that together cut at every call.
CUT_SEEDS ?= 41

.PHONY: demo test test-python machines machines-smoke machines-soak machine kernels-table machine-deps soak soak-systems soak-writers soak-hostile soak-kills bench fuzz lint models model-level_order model-frames install install-punctual install-modem install-rtkit deps modem-deps build build-modem build-rtkit msrv publish-check

demo: build-modem
	$(MODEM) demo $(ARGS)

test: modem-deps
	-@tools/install-packages $(TEST_PACKAGES)
	cargo build --locked --package punctual-interpose
	$(BUILD_LIBRARY) --profile quick
	tools/test --workspace --locked
	@$(MAKE) --no-print-directory test-python

# The Python package (docs/python.md): builds its wheel and runs its tests.
test-python: deps
	-@tools/install-packages $(TEST_PACKAGES)
	tools/test-python

# The kernels that people run, emulated (docs/machines.md): every job on every kernel. For one of
# them: make machines ARGS="doctor --kernel 6.12-rt --seed 7"
machines: machine-deps
	cargo run --release --locked --package machines -- check $(ARGS)

# A few minutes of them, with what `make test` has built.
machines-smoke: machine-deps
	cargo run --locked --package machines -- check --smoke --built target/debug

# Each process of each scenario cut at every one of its calls: 41 seeds begin at another call each.
machines-soak: machine-deps
	cargo run --release --locked --package machines -- check cuts-brokered cuts-local --seeds $(CUT_SEEDS) $(ARGS)

# What works on which kernel: docs/kernels.md.
kernels-table: machine-deps
	cargo run --release --locked --package machines -- table $(ARGS)

# A shell in one of them: make machine KERNEL=6.12-rt
machine: machine-deps
	cargo run --release --locked --package machines -- shell --kernel $(KERNEL) --program punctual-cli/punctual $(ARGS)

machine-deps: modem-deps
	@tools/install-packages $(MACHINE_PACKAGES)

soak: soak-systems soak-writers soak-hostile soak-kills

# A million random systems, admitted and then simulated. SOAK_FROM is the first seed, SOAK_SYSTEMS
# how many.
soak-systems: deps
	cargo run --release --locked --package system-tests --bin soak

# Live, as root: five writers through the channel server for so long (experiments/l4atm, Figures 7 and 8).
soak-writers: deps
	cargo run --release --locked --package l4atm -- writers --rounds 1 --seconds $(WRITERS_SECONDS) $(WRITERS_ARGS)

# Live, as root: hostile clients that are drawn from seeds, against one broker (docs/hostile.md).
soak-hostile: deps
	HOSTILE_SECONDS=$(HOSTILE_SECONDS) cargo run --release --locked --package system-tests --bin soak_hostile

# Live, as root: kill -9 of each kind of process at any moment.
soak-kills: build
	$(BUILD_LIBRARY) --release
	KILLS=$(KILLS) cargo run --release --locked --package system-tests --bin soak_kills

bench: modem-deps
	@tools/install-packages $(BENCH_PACKAGES)
	cargo bench --package punctual-bench --locked

# Each target for FUZZ_SECONDS, 600 if not said, for example: make fuzz FUZZ_SECONDS=60
fuzz:
	tools/fuzz

lint: modem-deps
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --package punctual-modem --no-default-features --all-targets --locked -- -D warnings
	cargo clippy --package punctual --no-default-features --all-targets --locked -- -D warnings
	tools/deny
	tools/build-bpf --check

# The protocol between processes, in every order of its steps (docs/model-checking.md).
models: deps
	@tools/install-packages spin libc6-dev
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target model-level_order model-frames

model-level_order model-frames:
	tools/check-models $(@:model-%=%)

# The programs, the C library and its header: make install PREFIX=/usr
install: install-punctual install-modem

# Without the modem, and so without libspandsp.
install-punctual: build
	$(BUILD_LIBRARY) --release
	install -D -m 755 $(PUNCTUAL) $(DESTDIR)$(PREFIX)/bin/punctual
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" tools/install-library $(LIBRARY)/release

# The modem alone.
install-modem: build-modem
	install -D -m 755 $(MODEM) $(DESTDIR)$(PREFIX)/bin/punctual-modem

# punctual-rtkit, in the place of rtkit (docs/rtkit.md): its files have the names of rtkit's own.
install-rtkit: build-rtkit
	install -D -m 755 target/release/punctual-rtkit $(DESTDIR)$(PREFIX)/bin/punctual-rtkit
	install -D -m 644 packaging/dbus/org.freedesktop.RealtimeKit1.conf -t $(DESTDIR)/usr/share/dbus-1/system.d
	install -D -m 644 packaging/polkit/org.freedesktop.RealtimeKit1.policy -t $(DESTDIR)/usr/share/polkit-1/actions
	install -d $(DESTDIR)/usr/lib/systemd/system $(DESTDIR)/usr/share/dbus-1/system-services
	sed 's|/usr/bin/|$(PREFIX)/bin/|' packaging/systemd/punctual-rtkit.service \
		>$(DESTDIR)/usr/lib/systemd/system/punctual-rtkit.service
	sed 's|/usr/bin/|$(PREFIX)/bin/|' packaging/dbus/org.freedesktop.RealtimeKit1.service \
		>$(DESTDIR)/usr/share/dbus-1/system-services/org.freedesktop.RealtimeKit1.service

# The oldest Rust that Cargo.toml states (rust-version) compiles everything.
msrv: modem-deps
	version=$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) && \
	rustup toolchain install --profile minimal $$version && \
	CARGO_TARGET_DIR=target/msrv cargo +$$version check --workspace --locked

# Every crate can be packed for a registry from what is in its own folder.
publish-check:
	cargo publish --workspace --dry-run --no-verify --locked

build: deps
	cargo build --release --locked --package punctual-cli

build-rtkit: deps
	cargo build --release --locked --package punctual-rtkit

build-modem: modem-deps
	cargo build --release --locked --package punctual-modem

deps:
	@tools/install-packages $(PACKAGES)

modem-deps: deps
	@tools/install-packages $(MODEM_PACKAGES)
