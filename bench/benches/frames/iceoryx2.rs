//! The peer that is a program of its own (`bench/peers/iceoryx2`): what it depends on takes longer to build
//! than everything here, and wants libclang.

use std::path::Path;
use std::process::Command;

use punctual_bench::c_peer::CPeer;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/iceoryx2");

/// Builds it, which the first time takes some minutes, and starts it. None, with the reason, where that
/// cannot be.
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
