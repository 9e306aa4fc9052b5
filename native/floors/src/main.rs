//! `floors NAME PATH`: does a part of a kernel's work and nothing else, in the plainest way, and prints what it found.
//!
//! The benchmarks run it as a peer: a kernel is judged by its ratio to the part of its work that cannot be left out.

mod files;
mod layers;
mod squash;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

type Floor = fn(&Path) -> std::io::Result<String>;

const FLOORS: [(&str, Floor); 7] = [
    ("sha256", files::sha256),
    ("walk", files::walk),
    ("squash_tables", squash::tables),
    ("read", layers::read),
    ("inflate_whole", layers::inflate_whole),
    ("inflate_streamed", layers::inflate_streamed),
    ("unzstd", layers::unzstd),
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [name, path] = arguments.as_slice() else {
        return usage();
    };
    let Some((_, floor)) = FLOORS.iter().find(|(known, _)| name == known) else {
        return usage();
    };
    match floor(Path::new(path)).and_then(|found| writeln!(std::io::stdout(), "{found}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("{}: {error}", path.to_string_lossy())),
    }
}

fn usage() -> ExitCode {
    let names: Vec<_> = FLOORS.iter().map(|(name, _)| *name).collect();
    fail(&format!("usage: floors {{{}}} PATH", names.join(",")))
}

fn fail(text: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::FAILURE
}
