//! The peer that is a program of its own (`bench/peers/iceoryx2`): its dependencies take longer to
//! build than everything here, and need libclang.

use std::path::Path;
use std::process::Command;

use punctual_bench::c_peer::CPeer;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/iceoryx2");

/// Builds it, which takes some minutes the first time, and starts it. Returns `None`, and prints
/// the reason, where that is not possible.
pub(crate) fn start() -> Option<CPeer> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("iceoryx2");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--quiet", "--manifest-path"])
        .arg(Path::new(FOLDER).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status();
    let peer = match built {
        Ok(status) if status.success() => CPeer::of(&target.join("release/iceoryx2-peer")),
        Ok(status) => Err(format!("cargo build: {status}; it takes libclang-dev")),
        Err(why) => Err(why.to_string()),
    };
    peer.inspect_err(|why| println!("iceoryx2: not measured: {why}")).ok()
}
