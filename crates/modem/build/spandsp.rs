//! Finds libspandsp, of a version whose structures are those that `ffi` declares.

/// The version with which everything is tested, and the first one whose structures and functions differ.
const VERSIONS: [&str; 2] = ["0.0.6", "3.0.0"];

/// Has the library linked that pkg-config knows, or says what to install.
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
