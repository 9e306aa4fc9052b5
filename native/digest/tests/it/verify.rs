//! Bulk verification: what differs first in each task, whatever the threads.

use crate::support::{task, write};
use platoon_digest::{hash_task, verify_tasks, ExpectedTask};

fn expected(root: &std::path::Path, with_files: bool) -> ExpectedTask {
    let hashed = hash_task(root, 1).expect("hashes");
    let files = hashed.files.iter().map(|file| (file.path.clone(), file.sha256)).collect();
    ExpectedTask { path: root.into(), sha256: hashed.sha256, files: with_files.then_some(files) }
}

#[test]
fn the_first_difference_of_each_task_is_named() {
    let changes: [fn(&std::path::Path); 8] = [
        |_| {},
        |root| write(root, "tests/test.sh", "other"),
        |root| write(root, "environment/more", ""),
        |root| write(root, "tests/zz", ""),
        |root| std::fs::remove_file(root.join("task.toml")).expect("removes"),
        |root| std::fs::remove_dir_all(root).expect("removes"),
        |root| std::os::unix::fs::symlink("/etc/passwd", root.join("README.md")).expect("link"),
        |root| {
            let elsewhere = root.with_extension("elsewhere");
            std::fs::rename(root, &elsewhere).expect("renames");
            std::os::unix::fs::symlink(&elsewhere, root).expect("link");
        },
    ];
    let whats = [
        None,
        Some("tests/test.sh: sha256:"),
        Some("environment/more: not expected"),
        Some("tests/zz: not expected"),
        Some("task.toml: missing"),
        Some("No such file or directory"),
        Some("leads out of the task directory"),
        Some("Not a directory"),
    ];
    let roots: Vec<_> = changes.iter().map(|_| task()).collect();
    let rows: Vec<_> = roots.iter().map(|root| expected(root.path(), true)).collect();
    let bare: Vec<_> = roots.iter().map(|root| expected(root.path(), false)).collect();
    for (root, change) in roots.iter().zip(changes) {
        change(root.path());
    }
    let told = |rows: &[ExpectedTask], threads| -> Vec<Option<String>> {
        verify_tasks(rows, threads)
            .expect("is not stopped")
            .into_iter()
            .map(|found| found.map(|difference| difference.to_string()))
            .collect()
    };
    let found = told(&rows, 1);
    assert_eq!(told(&rows, 3), found);
    for (found, what) in found.iter().zip(whats) {
        assert_eq!(found.is_some(), what.is_some(), "{found:?}");
        assert!(found.as_deref().unwrap_or_default().contains(what.unwrap_or_default()), "{found:?}: {what:?}");
    }
    let found = told(&bare, 2);
    assert!(found[1].as_ref().is_some_and(|text| text.contains("its content hash is sha256:")), "{found:?}");
    assert!(verify_tasks(&[], 4).expect("is not stopped").is_empty());
}
