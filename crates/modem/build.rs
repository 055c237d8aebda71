//! Links the system's libspandsp (LGPL-2.1), always dynamically, and compiles the integer modem core.

fn main() {
    let core = ["core/native.c", "core/fsk.h", "core/line.h", "core/sine.h"];
    core.iter().for_each(|file| println!("cargo:rerun-if-changed={file}"));
    // Optimised in every build: it is what runs in an interrupt that is compared with.
    let mut build = cc::Build::new();
    build.file("core/native.c").std("gnu11").opt_level(2).warnings_into_errors(true);
    build.flag("-Wextra").compile("punctual_fsk");

    let found = pkg_config::Config::new().atleast_version("0.0.6").statik(false).probe("spandsp");
    if let Err(why) = found {
        panic!(
            "punctual-modem needs the SpanDSP library, version 0.0.6 or newer, and pkg-config: \
             install libspandsp-dev and pkg-config (apt-get install libspandsp-dev pkg-config).\n{why}"
        );
    }
}
