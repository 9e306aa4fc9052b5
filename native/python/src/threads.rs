//! How many threads a call may use.

use std::sync::OnceLock;

use platoon_rows::Threads;

static IMPORTING_PROCESS: OnceLock<u32> = OnceLock::new();

/// Called when the module is imported.
pub(crate) fn remember_process() {
    IMPORTING_PROCESS.get_or_init(std::process::id);
}

/// What was asked for, or what the affinity mask and the control group leave this process. A forked child gets one: it may have been
/// forked in the middle of anything, and is one of many that share the processors.
pub(crate) fn threads_or_default(requested: Option<usize>) -> usize {
    if IMPORTING_PROCESS.get().is_some_and(|process| *process != std::process::id()) {
        return 1;
    }
    requested.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
}

/// The same, for a kernel that shares rows. `tokens_a_thread` is what one is worth starting for; tests lower it.
pub(crate) fn sharing(requested: Option<usize>, tokens_a_thread: usize) -> Threads {
    Threads { most: threads_or_default(requested), tokens_a_thread }
}
