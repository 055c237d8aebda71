//! Links the system's libspandsp (LGPL-2.1), always dynamically, and compiles the integer modem
//! core.

mod spandsp;

fn main() {
    let core = ["core/native.c", "core/fsk.h", "core/line.h", "core/sine.h"];
    core.iter().for_each(|file| println!("cargo:rerun-if-changed={file}"));
    // Optimised in every build, because its cost in an interrupt is measured and compared.
    let mut build = cc::Build::new();
    build.file("core/native.c").std("gnu11").opt_level(2).warnings_into_errors(true);
    build.flag("-Wextra").compile("punctual_fsk");

    if let Err(why) = spandsp::find() {
        // A panic would hide the sentence below a backtrace.
        eprintln!("{why}");
        std::process::exit(1);
    }
}
