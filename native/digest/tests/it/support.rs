//! Trees for the tests.

use std::fs;
use std::path::Path;

/// Writes a file below `root`, with the directories it lies in.
pub fn write(root: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("has a parent")).expect("directory");
    fs::write(path, text).expect("file");
}

/// A small task.
pub fn task() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("directory");
    write(root.path(), "task.toml", "");
    write(root.path(), "tests/test.sh", "#!/bin/sh\n");
    root
}
