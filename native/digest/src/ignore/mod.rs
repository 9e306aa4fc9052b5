//! The pattern language of a task's `.gitignore`, as the content hash reads it.
//!
//! Paths are tested as files, by their whole relative path; the last pattern that matches decides, so that `!x` brings back a file below
//! an ignored directory (git itself would not look there).
//! `docs/reference/content-hash.md` specifies the language; where it differs from git it follows Harbor's packager.

mod pattern;

use std::path::Path;

use crate::DigestError;
use pattern::Pattern;

/// Used when a task has no `.gitignore`.
const DEFAULT_PATTERNS: &str = "__pycache__/\n*.pyc\n.DS_Store\n*.swp\n*.swo\n*~\n";

/// An ignore file of more bytes, or of more patterns, is refused: each file of a task is held against all of them.
pub(crate) const FILE_BYTES: u64 = 256 << 10;
const PATTERNS: usize = 10_000;
/// As much of a broken pattern is shown.
const SHOWN_CHARACTERS: usize = 100;

/// An ordered list of patterns.
#[derive(Debug)]
pub struct IgnoreRules {
    patterns: Vec<Pattern>,
}

impl IgnoreRules {
    /// The rules of a task without a `.gitignore`.
    pub fn default_rules() -> Self {
        Self::parse(DEFAULT_PATTERNS, Path::new(".gitignore")).unwrap_or(Self { patterns: Vec::new() })
    }

    /// Reads the text of an ignore file; `path` names it in errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self, DigestError> {
        check_limit(path, "bytes of patterns", text.len() as u64, FILE_BYTES)?;
        let mut patterns = Vec::new();
        for (index, line) in split_lines(text).enumerate() {
            match Pattern::parse(line) {
                Ok(Some(pattern)) => patterns.push(pattern),
                Ok(None) => {}
                Err(reason) => {
                    return Err(DigestError::Pattern {
                        path: path.into(),
                        line: index + 1,
                        pattern: line.chars().take(SHOWN_CHARACTERS).collect(),
                        reason,
                    })
                }
            }
        }
        check_limit(path, "patterns", patterns.len() as u64, PATTERNS as u64)?;
        Ok(Self { patterns })
    }

    /// True where the last pattern that matches `path` (relative, POSIX, of a file) is not a negation.
    pub fn is_ignored(&self, path: &str) -> bool {
        self.patterns.iter().rev().find(|pattern| pattern.matches(path)).is_some_and(|pattern| !pattern.is_negated)
    }
}

/// Refuses more of something than is read of an ignore file.
pub(crate) fn check_limit(path: &Path, what: &'static str, found: u64, limit: u64) -> Result<(), DigestError> {
    if found > limit {
        return Err(DigestError::Limit { path: path.into(), what, found, limit });
    }
    Ok(())
}

/// Lines as Python's `str.splitlines` cuts them, since that is how the packager reads the file.
fn split_lines(text: &str) -> impl Iterator<Item = &str> {
    const BREAKS: [char; 10] =
        ['\n', '\r', '\u{0b}', '\u{0c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(end) = rest.find(BREAKS) else {
            return Some(std::mem::take(&mut rest));
        };
        let line = &rest[..end];
        let tail = &rest[end..];
        rest = tail.strip_prefix("\r\n").unwrap_or_else(|| {
            let mut characters = tail.chars();
            characters.next();
            characters.as_str()
        });
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> IgnoreRules {
        IgnoreRules::parse(text, Path::new(".gitignore")).expect("patterns parse")
    }

    #[test]
    fn patterns_match_as_specified() {
        // pattern, path, is ignored
        let table = [
            ("*.pyc", "a/b/x.pyc", true),
            ("*.pyc", "x.pycc", false),
            ("*.pyc", "x.pyc/below", true),
            ("__pycache__/", "tests/__pycache__/m.pyc", true),
            ("__pycache__/", "tests/__pycache__", false),
            ("/tests/secret/", "tests/secret/s", true),
            ("/tests/secret/", "steps/tests/secret/s", false),
            ("tests/secret", "steps/tests/secret", false),
            ("**/tmp/*", "environment/a/tmp/t.txt", true),
            ("**/tmp/*", "tmp/t.txt", true),
            ("tmp/*", "tmp/a/b", false),
            ("tmp/*x", "tmp/ax/b", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/**/b", "ab", false),
            ("a/**", "a/x", true),
            ("a/**", "a", false),
            ("**", "x", true),
            ("**/", "x", false),
            ("**/", "d/x", true),
            ("*", "d/x", true),
            ("*/", "x", false),
            ("/*", "d/x", false),
            ("/", "x", true),
            ("?.c", "a.c", true),
            ("?.c", "/.c", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]-]x", "-x", true),
            ("[]", "[]", true),
            ("a[!b]c", "a/c", true),
            ("\\!x", "!x", true),
            ("\\#x", "#x", true),
            ("#x", "#x", false),
            ("x  ", "x", true),
            ("x\\ ", "x ", true),
            ("  x", "x", false),
            ("a//b", "a/b", false),
        ];
        for (pattern, path, expected) in table {
            assert_eq!(rules(pattern).is_ignored(path), expected, "{pattern:?} on {path:?}");
        }
    }

    #[test]
    fn the_last_match_decides() {
        let rules = rules("*.csv\r\n!keep.csv\nkeep.csv/\n");
        assert!(rules.is_ignored("a/x.csv"));
        assert!(!rules.is_ignored("a/keep.csv"));
        assert!(rules.is_ignored("a/keep.csv/x"));
    }

    #[test]
    fn a_broken_pattern_is_an_error_with_its_line() {
        for (text, line) in [("a\n!", 2), ("x\\", 1), ("\n\n[z-a]", 3)] {
            let error = IgnoreRules::parse(text, Path::new(".gitignore")).expect_err("refused");
            assert!(matches!(error, DigestError::Pattern { line: found, .. } if found == line), "{error}");
        }
    }

    #[test]
    fn limits_are_told_with_what_was_found() {
        for (text, expected) in [
            ("a".repeat(262_145), ".gitignore: 262145 bytes of patterns, where at most 262144 are read"),
            ("a\n".repeat(10_001), ".gitignore: 10001 patterns, where at most 10000 are read"),
        ] {
            let error = IgnoreRules::parse(&text, Path::new(".gitignore")).expect_err("refused");
            assert_eq!(error.to_string(), expected);
        }
        assert!(rules(&"#\n".repeat(20_000)).patterns.is_empty());
        let broken = IgnoreRules::parse(&("é".repeat(10_000) + "\\"), Path::new(".gitignore")).expect_err("refused");
        assert!(broken.to_string().len() < 300, "{broken}");
    }

    #[test]
    fn a_long_line_is_read_as_a_short_one() {
        // Each of these took time by the square of its length.
        let long = 262_144 / 2;
        assert!(rules(&"[a".repeat(long)).is_ignored(&"[a".repeat(long)));
        assert!(rules(&"[!".repeat(long)).is_ignored(&"[!".repeat(long)));
        assert!(rules(&"a".repeat(2 * long)).is_ignored(&"a".repeat(2 * long)));
        assert!(rules(&"*".repeat(2 * long)).is_ignored("abc"));
        assert!(!rules(&"?*".repeat(long)).is_ignored("abc"));
        assert!(!rules(&"*a".repeat(long)).is_ignored("abc"));
        assert!(!rules(&"\0".repeat(2 * long)).is_ignored("a"));
        // A class that is closed behind one that is not is none; a pair that is.
        assert!(rules("[a[b]c").is_ignored("bc") && rules("[]x[]y").is_ignored("xy"));
    }

    #[test]
    fn many_stars_cost_no_more_than_their_product() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!rules(&pattern).is_ignored(&"a".repeat(4000)));
    }
}
