//! Sets the name (soname) under which programs load the shared library. It contains the number of
//! the binary interface, which changes when old programs would no longer work.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpunctual.so.0");
}
