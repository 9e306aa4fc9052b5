//! Publishing: what is copied, with which modes, and what a place that is taken, wrong or a link becomes.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::support::{task, write};
use platoon_digest::{hash_task, publish_task, DigestError, Outcome, Publication, Published};

/// A cache below a temporary directory.
struct Cache {
    root: tempfile::TempDir,
    programs: HashSet<String>,
}

impl Cache {
    fn new() -> Self {
        Self { root: tempfile::tempdir().expect("directory"), programs: HashSet::from(["tests/tool".to_owned()]) }
    }

    fn publication(&self) -> Publication<'_> {
        Publication {
            base: self.root.path(),
            tasks: Path::new("harbor/tasks"),
            staged: Path::new("harbor/.tmp/one"),
            programs: &self.programs,
            expected: None,
            is_durable: true,
        }
    }

    fn publish(&self, source: &Path) -> Result<Published, DigestError> {
        publish_task(source, self.publication())
    }

    fn place(&self, published: &Published) -> PathBuf {
        self.root.path().join("harbor/tasks").join(published.task.digest())
    }

    fn staged_count(&self) -> usize {
        fs::read_dir(self.root.path().join("harbor/.tmp")).expect("listing").count()
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("is there").permissions().mode() & 0o7777
}

#[test]
fn a_task_is_copied_with_canonical_modes_and_nothing_else() {
    let source = task();
    write(source.path(), ".gitignore", "*.log\n");
    write(source.path(), "tests/run.log", "left out");
    write(source.path(), "tests/deep/er/data.bin", vec![7; 300_000]);
    write(source.path(), "tests/script", "#!/usr/bin/env python3\n");
    write(source.path(), "tests/tool", "\x7fELF");
    write(source.path(), "environment/empty", "");
    write(source.path(), "NOTES.txt", "no candidate");
    fs::create_dir(source.path().join("solution")).expect("directory");
    symlink("../environment/empty", source.path().join("tests/link")).expect("link");
    fs::set_permissions(source.path().join("task.toml"), fs::Permissions::from_mode(0o4777)).expect("mode");
    let cache = Cache::new();
    let published = cache.publish(source.path()).expect("publishes");
    assert_eq!(published.outcome, Outcome::Copied);
    assert_eq!(published.task, hash_task(source.path(), 1).expect("hashes"));
    let place = cache.place(&published);
    assert_eq!(hash_task(&place, 1).expect("hashes"), published.task);
    let modes = [
        ("", 0o755),
        (".gitignore", 0o644),
        ("task.toml", 0o644),
        ("environment", 0o755),
        ("environment/empty", 0o644),
        ("tests/deep/er", 0o755),
        ("tests/deep/er/data.bin", 0o644),
        ("tests/test.sh", 0o755),
        ("tests/script", 0o755),
        ("tests/tool", 0o755),
        ("tests/link", 0o644),
    ];
    for (path, expected) in modes {
        assert_eq!(mode(&place.join(path)), expected, "{path}");
    }
    assert!(!place.join("tests/link").is_symlink());
    for absent in ["NOTES.txt", "tests/run.log", "solution"] {
        assert!(!place.join(absent).exists(), "{absent}");
    }
    assert_eq!(cache.staged_count(), 0);
}

#[test]
fn a_second_time_nothing_is_copied() {
    let (source, cache) = (task(), Cache::new());
    let first = cache.publish(source.path()).expect("publishes");
    for expected in [None, Some(first.task.sha256)] {
        let again = publish_task(source.path(), Publication { expected, ..cache.publication() }).expect("publishes");
        assert_eq!(again.outcome, Outcome::Found);
        assert_eq!(again.task, first.task);
    }
    assert_eq!(cache.staged_count(), 0);
}

#[test]
fn programs_that_another_publisher_did_not_know_of_become_programs() {
    let (source, cache) = (task(), Cache::new());
    write(source.path(), "tests/tool", "");
    let none = HashSet::new();
    let first = publish_task(source.path(), Publication { programs: &none, ..cache.publication() }).expect("publishes");
    assert_eq!(mode(&cache.place(&first).join("tests/tool")), 0o644);
    assert_eq!(cache.publish(source.path()).expect("publishes").outcome, Outcome::Found);
    assert_eq!(mode(&cache.place(&first).join("tests/tool")), 0o755);
}

#[test]
fn what_stands_in_the_place_wrongly_is_replaced() {
    let source = task();
    let spoils: [fn(&Path); 4] = [
        |place| write(place, "tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n"),
        |place| {
            fs::remove_dir_all(place).expect("removes");
            fs::write(place, "a file").expect("file");
        },
        |place| {
            fs::remove_dir_all(place).expect("removes");
            symlink("/etc", place).expect("link");
        },
        |place| {
            fs::remove_dir_all(place.join("tests")).expect("removes");
            symlink("/etc", place.join("tests")).expect("link");
        },
    ];
    for spoil in spoils {
        let cache = Cache::new();
        let first = cache.publish(source.path()).expect("publishes");
        spoil(&cache.place(&first));
        let again = cache.publish(source.path()).expect("publishes");
        assert_eq!(again.outcome, Outcome::Copied);
        assert_eq!(hash_task(&cache.place(&again), 1).expect("hashes"), first.task);
        assert_eq!(cache.staged_count(), 0);
    }
}

/// U42: a directory of the cache that is a planted link.
#[test]
fn u42_a_link_in_the_cache_is_refused_by_name() {
    for planted in ["harbor", "harbor/tasks", "harbor/.tmp"] {
        let (source, cache, elsewhere) = (task(), Cache::new(), tempfile::tempdir().expect("directory"));
        let path = cache.root.path().join(planted);
        fs::create_dir_all(path.parent().expect("has a parent")).expect("directory");
        symlink(elsewhere.path(), &path).expect("link");
        let error = cache.publish(source.path()).expect_err("refused");
        assert!(matches!(&error, DigestError::LinkedPlace { path: found } if *found == path), "{error}");
        assert_eq!(fs::read_dir(elsewhere.path()).expect("listing").count(), 0);
    }
}

#[test]
fn links_that_lead_to_no_file_of_the_task_are_refused() {
    for (target, is_escape) in
        [("/etc/passwd", true), ("../../x", true), ("nowhere", false), (".", false), ("link", false)]
    {
        let (source, cache) = (task(), Cache::new());
        symlink(target, source.path().join("tests/link")).expect("link");
        let error = cache.publish(source.path()).expect_err("refused");
        assert_eq!(matches!(error, DigestError::EscapingLink { .. }), is_escape, "{error}");
        assert_eq!(matches!(error, DigestError::LinkToNoFile { .. }), !is_escape, "{error}");
        assert!(error.to_string().contains("tests/link"), "{error}");
        assert_eq!(cache.staged_count(), 0);
        assert_eq!(fs::read_dir(cache.root.path().join("harbor/tasks")).expect("listing").count(), 0);
    }
}

#[test]
fn another_digest_than_the_expected_one_publishes_nothing() {
    let (source, cache) = (task(), Cache::new());
    let expected = hash_task(source.path(), 1).expect("hashes").sha256;
    write(source.path(), "tests/test.sh", "changed");
    let publication = Publication { expected: Some(expected), ..cache.publication() };
    let published = publish_task(source.path(), publication).expect("reads");
    assert_eq!(published.outcome, Outcome::Changed);
    assert_eq!(published.task, hash_task(source.path(), 1).expect("hashes"));
    assert_eq!(cache.staged_count(), 0);
    assert_eq!(fs::read_dir(cache.root.path().join("harbor/tasks")).expect("listing").count(), 0);
}

#[test]
fn a_staging_name_that_is_taken_or_none_is_an_error() {
    let (source, cache) = (task(), Cache::new());
    write(cache.root.path(), "harbor/.tmp/one/other", "of another process");
    assert!(matches!(cache.publish(source.path()), Err(DigestError::Io { .. })));
    assert_eq!(cache.staged_count(), 1);
    for staged in ["", "..", "harbor/../../out"] {
        let publication = Publication { staged: Path::new(staged), ..cache.publication() };
        assert!(matches!(publish_task(source.path(), publication), Err(DigestError::Io { .. })), "{staged:?}");
    }
}
