//! Tests that include/punctual.h is what cbindgen makes of this crate. PUNCTUAL_UPDATE_HEADER=1
//! writes it.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_header_is_up_to_date() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml");
    let made = cbindgen::Builder::new().with_crate(here).with_config(config).generate();
    let mut header = Vec::new();
    made.expect("a header can be made").write(&mut header);
    let header = String::from_utf8(header).expect("a header is text");
    let committed = here.join("../../include/punctual.h");
    if env::var_os("PUNCTUAL_UPDATE_HEADER").is_some() {
        fs::write(&committed, &header).expect("include/punctual.h can be written");
    }
    let found = fs::read_to_string(&committed).expect("include/punctual.h");
    assert!(
        found == header,
        "include/punctual.h is not what the crate says: run PUNCTUAL_UPDATE_HEADER=1 cargo test \
         --package punctual-capi --test header, and look at the difference"
    );
}
