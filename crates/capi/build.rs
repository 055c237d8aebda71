//! Gives the shared library the name that programs ask for when they start: with the number of its
//! binary interface, which changes when old programs would no longer work.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpunctual.so.0");
}
