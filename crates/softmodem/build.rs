//! Links the system's libspandsp (LGPL-2.1), always dynamically.

fn main() {
    let found = pkg_config::Config::new().atleast_version("0.0.6").statik(false).probe("spandsp");
    if let Err(why) = found {
        panic!(
            "punctual-softmodem needs the SpanDSP library, version 0.0.6 or newer, and pkg-config: \
             install libspandsp-dev and pkg-config (apt-get install libspandsp-dev pkg-config).\n{why}"
        );
    }
}
