//! `floors NAME PATH`: does a part of a kernel's work and nothing else, in the plainest way.
//!
//! The benchmarks run it as a peer: a kernel is judged by its ratio to the part of its work that cannot be left out. The first time warms
//! caches and memory up, as a kernel's are; then the work is repeated and measured, without the start of this program. Prints what was
//! found, and on a second line the CPU and wall milliseconds of one time.

mod files;
mod layers;
mod squash;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Less than this is mostly the clock.
const MEASURED: Duration = Duration::from_millis(20);

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
    match measure(*floor, Path::new(path)).and_then(|found| writeln!(std::io::stdout(), "{found}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("{}: {error}", path.to_string_lossy())),
    }
}

fn measure(floor: Floor, path: &Path) -> std::io::Result<String> {
    let found = floor(path)?;
    let (cpu, wall) = (cpu_time(), Instant::now());
    let mut times = 0;
    while times == 0 || wall.elapsed() < MEASURED {
        std::hint::black_box(floor(path)?);
        times += 1;
    }
    let [cpu, wall] = [cpu_time() - cpu, wall.elapsed()].map(|taken| taken.as_secs_f64() * 1000.0 / f64::from(times));
    Ok(format!("{found}\n{cpu} {wall}"))
}

/// What this process has taken of the processors.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn usage() -> ExitCode {
    let names: Vec<_> = FLOORS.iter().map(|(name, _)| *name).collect();
    fail(&format!("usage: floors {{{}}} PATH", names.join(",")))
}

fn fail(text: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::FAILURE
}
