//! Finds a version of libspandsp that has the structures declared in `ffi`.

/// The tested version, and the first version with other structures and functions.
const VERSIONS: [&str; 2] = ["0.0.6", "3.0.0"];

/// Links the library that pkg-config finds, or says what to install.
pub(crate) fn find() -> Result<(), String> {
    let [tested, other] = VERSIONS;
    let mut config = pkg_config::Config::new();
    match config.range_version(tested..other).statik(false).probe("spandsp") {
        Ok(_) => Ok(()),
        Err(why) => Err(format!(
            "punctual-modem needs the SpanDSP library, version {tested} or newer but older than {other}, and \
             pkg-config: install libspandsp-dev and pkg-config (apt-get install libspandsp-dev pkg-config).\n{why}"
        )),
    }
}
