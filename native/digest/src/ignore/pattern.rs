//! One pattern, compiled to a short program over characters and run as a set of states: time is bounded by pattern length times path
//! length, whatever the pattern is. Most paths lack a text that the pattern needs, and are done with after a search for it.

use memchr::memmem::Finder;

#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) is_negated: bool,
    program: Vec<Step>,
    accept: Accept,
    /// The longest text that stands in every path that matches; empty where there is none.
    needed: Finder<'static>,
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
    /// Reads one line; `None` for a blank or a comment.
    pub(super) fn parse(line: &str) -> Result<Option<Self>, &'static str> {
        // A line that ends in an escaped blank is kept whole.
        let is_blank = |character: char| character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character);
        let line = if line.ends_with("\\ ") { line } else { line.trim_end_matches(is_blank) };
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let (is_negated, text) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (program, accept) = compile(text)?;
        let needed = Finder::new(&needed_text(&program)).into_owned();
        Ok(Some(Self { is_negated, program, accept, needed }))
    }

    /// True where the pattern, taken without its negation, matches the path of a file.
    pub(super) fn matches(&self, path: &str) -> bool {
        self.needed.find(path.as_bytes()).is_some() && self.runs_through(path)
    }

    fn runs_through(&self, path: &str) -> bool {
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

/// The longest run of literal steps that no path can go round.
fn needed_text(program: &[Step]) -> String {
    let (mut longest, mut run) = (String::new(), String::new());
    let mut end = |run: &mut String| {
        if run.len() > longest.len() {
            std::mem::swap(run, &mut longest);
        }
        run.clear();
    };
    let mut steps = program.iter();
    while let Some(step) = steps.next() {
        match step {
            Step::Literal(character) => run.push(*character),
            Step::Optional(count) => {
                end(&mut run);
                steps.by_ref().take(*count).for_each(drop);
            }
            _ => end(&mut run),
        }
    }
    end(&mut run);
    longest
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
    // Where one class is not closed, none behind it is.
    let mut may_close = true;
    while index < characters.len() {
        let character = characters[index];
        index += 1;
        let step = match character {
            '\\' => {
                let escaped = characters.get(index).ok_or("ends in an escape of nothing")?;
                index += 1;
                Step::Literal(*escaped)
            }
            // One star after another says nothing more.
            '*' if matches!(program.last(), Some(Step::ManyNotSlash)) => continue,
            '*' => Step::ManyNotSlash,
            '?' => Step::NotSlash,
            '[' if may_close => match class_end(&characters, index) {
                Some(end) => {
                    let step = parse_class(&characters[index..end])?;
                    index = end + 1;
                    step
                }
                None => {
                    may_close = false;
                    Step::Literal('[')
                }
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
