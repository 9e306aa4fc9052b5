//! The pattern language of a task's `.gitignore`, as the content hash reads it.
//!
//! Paths are tested as files, by their whole relative path; the last pattern that matches decides, so that `!x` brings back a file below
//! an ignored directory (git itself would not look there). A pattern is compiled to a short program over characters and run as a set of
//! states: time is bounded by pattern length times path length, whatever the pattern is.
//! `docs/reference/content-hash.md` specifies the language; where it differs from git it follows Harbor's packager.

use std::path::Path;

use crate::DigestError;

/// Used when a task has no `.gitignore`.
const DEFAULT_PATTERNS: &str = "__pycache__/\n*.pyc\n.DS_Store\n*.swp\n*.swo\n*~\n";

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
        let mut patterns = Vec::new();
        for (index, line) in split_lines(text).enumerate() {
            match Pattern::parse(line) {
                Ok(Some(pattern)) => patterns.push(pattern),
                Ok(None) => {}
                Err(reason) => {
                    return Err(DigestError::Pattern {
                        path: path.into(),
                        line: index + 1,
                        pattern: line.to_owned(),
                        reason,
                    })
                }
            }
        }
        Ok(Self { patterns })
    }

    /// True where the last pattern that matches `path` (relative, POSIX, of a file) is not a negation.
    pub fn is_ignored(&self, path: &str) -> bool {
        self.patterns.iter().rev().find(|pattern| pattern.matches(path)).is_some_and(|pattern| !pattern.is_negated)
    }
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

#[derive(Debug)]
struct Pattern {
    is_negated: bool,
    program: Vec<Step>,
    accept: Accept,
}

/// One step of a program; states are indices into it.
#[derive(Debug)]
enum Step {
    /// Exactly this character.
    Literal(char),
    /// One character, never a slash.
    NotSlash,
    /// Any number of characters, never a slash.
    ManyNotSlash,
    /// One character of any kind.
    Any,
    /// Any number of characters of any kind.
    ManyAny,
    /// One character in (or, negated, outside) the inclusive ranges; a range or a negation may take in the slash.
    Class { is_negated: bool, ranges: Vec<(char, char)> },
    /// Take the next steps or leave out this many of them.
    Optional(usize),
}

/// Where in the path a finished program counts as a match.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Accept {
    /// Anywhere: everything below is matched too.
    Anywhere,
    /// At the end, or before a slash: the entry and everything below it.
    EndOrSlash,
    /// At the end only.
    End,
}

impl Pattern {
    fn parse(line: &str) -> Result<Option<Self>, &'static str> {
        // A line that ends in an escaped blank is kept whole.
        let is_blank = |character: char| character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character);
        let line = if line.ends_with("\\ ") { line } else { line.trim_end_matches(is_blank) };
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let (is_negated, text) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (program, accept) = compile(text)?;
        Ok(Some(Self { is_negated, program, accept }))
    }

    fn matches(&self, path: &str) -> bool {
        let mut states = StateSet::new(self.program.len() + 1);
        let mut next = StateSet::new(self.program.len() + 1);
        self.enter(0, &mut states);
        for character in path.chars() {
            if states.is_empty() {
                return false;
            }
            let finished = states.contains(self.program.len());
            if finished && (self.accept == Accept::Anywhere || (self.accept == Accept::EndOrSlash && character == '/'))
            {
                return true;
            }
            next.clear();
            for &state in &states.members {
                let Some(step) = self.program.get(state) else { continue };
                let target = match step {
                    Step::Literal(wanted) => (*wanted == character).then_some(state + 1),
                    Step::NotSlash => (character != '/').then_some(state + 1),
                    Step::ManyNotSlash => (character != '/').then_some(state),
                    Step::Any => Some(state + 1),
                    Step::ManyAny => Some(state),
                    Step::Class { is_negated, ranges } => {
                        let is_inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&character));
                        (is_inside != *is_negated).then_some(state + 1)
                    }
                    Step::Optional(_) => None,
                };
                if let Some(target) = target {
                    self.enter(target, &mut next);
                }
            }
            std::mem::swap(&mut states, &mut next);
        }
        states.contains(self.program.len())
    }

    /// Adds `state` and every state reachable from it without a character.
    fn enter(&self, state: usize, states: &mut StateSet) {
        let mut pending = Some(state);
        while let Some(state) = pending {
            if !states.insert(state) {
                return;
            }
            pending = match self.program.get(state) {
                Some(Step::ManyNotSlash | Step::ManyAny) => Some(state + 1),
                Some(Step::Optional(count)) => {
                    self.enter(state + 1 + count, states);
                    Some(state + 1)
                }
                _ => None,
            };
        }
    }
}

/// A set of states with constant-time membership and iteration in order of entry.
struct StateSet {
    is_member: Vec<bool>,
    members: Vec<usize>,
}

impl StateSet {
    fn new(count: usize) -> Self {
        Self { is_member: vec![false; count], members: Vec::with_capacity(count) }
    }

    fn insert(&mut self, state: usize) -> bool {
        let is_new = !self.is_member[state];
        if is_new {
            self.is_member[state] = true;
            self.members.push(state);
        }
        is_new
    }

    fn contains(&self, state: usize) -> bool {
        self.is_member[state]
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn clear(&mut self) {
        self.members.drain(..).for_each(|state| self.is_member[state] = false);
    }
}

/// Turns a pattern without its `!` into a program.
fn compile(text: &str) -> Result<(Vec<Step>, Accept), &'static str> {
    let is_directory_only = text.ends_with('/') && text != "/";
    let segments = normal_segments(text)?;
    match segments.as_slice() {
        ["**"] if !is_directory_only => return Ok((vec![Step::Any], Accept::Anywhere)),
        ["**", "*"] => return Ok((vec![Step::Any], Accept::Anywhere)),
        // Everything but the files of the root itself.
        ["**"] | ["**", "*", "**"] => return Ok((vec![Step::ManyAny, Step::Literal('/')], Accept::Anywhere)),
        _ => {}
    }
    let mut program = Vec::new();
    let mut needs_slash = false;
    let last = segments.len() - 1;
    for (index, &segment) in segments.iter().enumerate() {
        if segment == "**" {
            if index == 0 {
                program.extend([Step::Optional(3), Step::Any, Step::ManyAny, Step::Literal('/')]);
            } else if index < last {
                program.extend([Step::Optional(3), Step::Literal('/'), Step::Any, Step::ManyAny]);
                needs_slash = true;
            } else {
                program.push(Step::Literal('/'));
                return Ok((program, Accept::Anywhere));
            }
            continue;
        }
        if needs_slash {
            program.push(Step::Literal('/'));
        }
        needs_slash = true;
        if segment == "*" {
            program.extend([Step::NotSlash, Step::ManyNotSlash]);
        } else {
            compile_segment(segment, &mut program)?;
        }
    }
    // `dir/*` names the entries of `dir` themselves, not what is below them.
    let accept = if segments[last] == "*" { Accept::End } else { Accept::EndOrSlash };
    Ok((program, accept))
}

/// Splits at slashes; makes anchoring and directory patterns explicit as `**`, and folds runs of `**`.
fn normal_segments(text: &str) -> Result<Vec<&str>, &'static str> {
    let mut segments: Vec<&str> = text.split('/').collect();
    let is_anywhere = segments.len() == 1 || (segments.len() == 2 && segments[1].is_empty());
    if segments[0].is_empty() {
        segments.remove(0);
    } else if is_anywhere && segments[0] != "**" {
        segments.insert(0, "**");
    }
    match segments.last_mut() {
        None => return Err("is empty"),
        Some(last) if last.is_empty() => *last = "**",
        Some(_) => {}
    }
    segments.dedup_by(|current, previous| *current == "**" && *previous == "**");
    Ok(segments)
}

fn compile_segment(segment: &str, program: &mut Vec<Step>) -> Result<(), &'static str> {
    let characters: Vec<char> = segment.chars().collect();
    let mut index = 0;
    while index < characters.len() {
        let character = characters[index];
        index += 1;
        let step = match character {
            '\\' => {
                let escaped = characters.get(index).ok_or("ends in an escape of nothing")?;
                index += 1;
                Step::Literal(*escaped)
            }
            '*' => Step::ManyNotSlash,
            '?' => Step::NotSlash,
            '[' => match class_end(&characters, index) {
                Some(end) => {
                    let step = parse_class(&characters[index..end])?;
                    index = end + 1;
                    step
                }
                None => Step::Literal('['),
            },
            other => Step::Literal(other),
        };
        program.push(step);
    }
    Ok(())
}

/// The index of the `]` that closes a class whose body starts at `start`; a `]` that comes first is a member.
fn class_end(characters: &[char], start: usize) -> Option<usize> {
    let mut index = start;
    if matches!(characters.get(index), Some('!' | '^')) {
        index += 1;
    }
    if characters.get(index) == Some(&']') {
        index += 1;
    }
    (index..characters.len()).find(|&at| characters[at] == ']')
}

/// `body` stands between the brackets. A backslash is an ordinary member; a `-` at either end is itself.
fn parse_class(body: &[char]) -> Result<Step, &'static str> {
    let is_negated = matches!(body.first(), Some('!' | '^'));
    let body = if is_negated { &body[1..] } else { body };
    let mut ranges = Vec::new();
    let mut index = 0;
    while index < body.len() {
        let low = body[index];
        if body.get(index + 1) == Some(&'-') && index + 2 < body.len() {
            let high = body[index + 2];
            if high < low {
                return Err("has a character range that runs backwards");
            }
            ranges.push((low, high));
            index += 3;
        } else {
            ranges.push((low, low));
            index += 1;
        }
    }
    Ok(Step::Class { is_negated, ranges })
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
    fn many_stars_cost_no_more_than_their_product() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!rules(&pattern).is_ignored(&"a".repeat(4000)));
    }
}
