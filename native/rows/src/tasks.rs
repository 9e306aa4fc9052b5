//! What is known of tasks: evidence that fades with versions, and what it says of the next group.

use crate::error::{check_length, RowsError};

/// After so many versions, evidence weighs half.
pub const HALF_LIFE_VERSIONS: f64 = 32.0;
/// Names of the bands, from never passed to always.
pub const BANDS: [&str; 5] = ["zero", "low", "mid", "high", "solved"];
/// The largest group that is asked about.
pub const GROUP_LIMIT: u32 = 4096;

/// One entry a task: decayed passes and failures as of a version, which is -1 where there was no attempt yet.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    pub passes: &'a [f64],
    pub failures: &'a [f64],
    pub version: &'a [i64],
}

/// The same, owned.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedEvidence {
    pub passes: Vec<f64>,
    pub failures: Vec<f64>,
    pub version: Vec<i64>,
}

/// Attempts that came in, one entry a group and version, in the order in which they count.
#[derive(Debug, Clone, Copy)]
pub struct Attempts<'a> {
    pub task: &'a [u32],
    pub version: &'a [i64],
    pub passes: &'a [u32],
    pub failures: &'a [u32],
}

/// Adds attempts. Newer ones make what is there fade to their version; older ones come in faded to what is there.
pub fn add_attempts(evidence: Evidence<'_>, attempts: Attempts<'_>) -> Result<OwnedEvidence, RowsError> {
    check_evidence(&evidence)?;
    let count = attempts.task.len();
    check_length("version", attempts.version.len(), count)?;
    check_length("passes", attempts.passes.len(), count)?;
    check_length("failures", attempts.failures.len(), count)?;
    let mut out = OwnedEvidence {
        passes: evidence.passes.to_vec(),
        failures: evidence.failures.to_vec(),
        version: evidence.version.to_vec(),
    };
    for index in 0..count {
        let (task, version) = (attempts.task[index] as usize, attempts.version[index]);
        if task >= out.version.len() {
            return Err(RowsError::value("task", index, task, "names no task"));
        }
        if version < 0 {
            return Err(RowsError::value("version", index, version, "an attempt has a version"));
        }
        let known = out.version[task].max(0);
        let (old, new) = (faded(version.saturating_sub(known)), faded(known.saturating_sub(version)));
        out.passes[task] = out.passes[task] * old + f64::from(attempts.passes[index]) * new;
        out.failures[task] = out.failures[task] * old + f64::from(attempts.failures[index]) * new;
        out.version[task] = out.version[task].max(version);
    }
    Ok(out)
}

/// Ages below which a weight is looked up.
const YOUNG: i64 = 1024;

/// Parameters of the Beta distribution of each task's pass rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Posteriors {
    pub alpha: Vec<f64>,
    pub beta: Vec<f64>,
    /// A rate an entry: what its tasks say of a task that was never tried.
    pub entry_rate: Vec<f64>,
}

/// The posteriors seen from `version`: an entry's rate counts as two attempts of each of its tasks.
pub fn posteriors(
    evidence: Evidence<'_>,
    entry_of_task: &[u32],
    entry_count: usize,
    version: i64,
) -> Result<Posteriors, RowsError> {
    check_evidence(&evidence)?;
    let tasks = evidence.version.len();
    check_length("entry_of_task", entry_of_task.len(), tasks)?;
    // The largest is found a vector at a time; only where it is too large is the first such one looked for.
    let largest = entry_of_task.iter().fold(0, |largest, &entry| entry.max(largest));
    if largest as usize >= entry_count {
        if let Some(index) = entry_of_task.iter().position(|&entry| entry as usize >= entry_count) {
            return Err(RowsError::value(
                "entry_of_task",
                index,
                entry_of_task[index],
                "must be below the number of entries",
            ));
        }
    }
    if entry_count > tasks {
        return Err(RowsError::Rule { rule: "there are no more entries than tasks" });
    }
    // Most evidence is young: each weight is computed once.
    let young: Vec<f64> = (0..YOUNG.min(tasks as i64)).map(faded).collect();
    let weight = |at: i64| {
        let age = version.saturating_sub(at.max(0)).max(0);
        usize::try_from(age).ok().and_then(|age| young.get(age)).copied().unwrap_or_else(|| faded(age))
    };
    let mut of_entry = vec![(0f64, 0f64); entry_count];
    let (mut alpha, mut beta) = (evidence.passes.to_vec(), evidence.failures.to_vec());
    let seen = alpha.iter_mut().zip(&mut beta).zip(evidence.version).zip(entry_of_task);
    for (((passes, failures), &at), &entry) in seen {
        let weight = weight(at);
        *passes *= weight;
        *failures *= weight;
        let sums = &mut of_entry[entry as usize];
        *sums = (sums.0 + *passes, sums.1 + (*passes + *failures));
    }
    let entry_rate: Vec<f64> = of_entry.iter().map(|&(passes, attempts)| (1.0 + passes) / (2.0 + attempts)).collect();
    for ((alpha, beta), &entry) in alpha.iter_mut().zip(&mut beta).zip(entry_of_task) {
        let rate = entry_rate[entry as usize];
        *alpha += 2.0 * rate;
        *beta += 2.0 * (1.0 - rate);
    }
    Ok(Posteriors { alpha, beta, entry_rate })
}

/// What a group of `size` would show, by task.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// At least one passes.
    pub pass_at: Vec<f64>,
    /// At least one passes, and at least one fails.
    pub informative_at: Vec<f64>,
    /// Index into `BANDS` of the mean pass rate.
    pub band: Vec<u8>,
}

/// Looks ahead from the parameters of `posteriors`.
pub fn outlook(alpha: &[f64], beta: &[f64], size: u32) -> Result<Outlook, RowsError> {
    check_parameters(alpha, beta)?;
    check_group_size(size)?;
    let mut out = Outlook {
        pass_at: Vec::with_capacity(alpha.len()),
        informative_at: Vec::with_capacity(alpha.len()),
        band: Vec::with_capacity(alpha.len()),
    };
    for (&alpha, &beta) in alpha.iter().zip(beta) {
        let (mut all_fail, mut all_pass) = (1f64, 1f64);
        for member in 0..size {
            let tried = alpha + beta + f64::from(member);
            all_fail *= (beta + f64::from(member)) / tried;
            all_pass *= (alpha + f64::from(member)) / tried;
        }
        out.pass_at.push(1.0 - all_fail);
        // Rounding may leave a little less than nothing.
        out.informative_at.push((1.0 - all_fail - all_pass).max(0.0));
        out.band.push(band(alpha / (alpha + beta)));
    }
    Ok(out)
}

/// What the tasks of each label look like.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelSummary {
    pub tasks: Vec<u64>,
    /// Means over the label's tasks; not a number for a label without any.
    pub pass_at_1: Vec<f64>,
    pub pass_at_group: Vec<f64>,
    /// Tasks by label and band: all bands of the first label, then those of the next.
    pub bands: Vec<u64>,
}

/// Sums up `outlook` for a group of one and of the run's size, by label.
pub fn label_summary(
    label_of_task: &[u32],
    label_count: usize,
    pass_at_1: &[f64],
    pass_at_group: &[f64],
    band: &[u8],
) -> Result<LabelSummary, RowsError> {
    let tasks = label_of_task.len();
    check_length("pass_at_1", pass_at_1.len(), tasks)?;
    check_length("pass_at_group", pass_at_group.len(), tasks)?;
    check_length("band", band.len(), tasks)?;
    if label_count > tasks {
        return Err(RowsError::Rule { rule: "there are no more labels than tasks" });
    }
    let mut out = LabelSummary {
        tasks: vec![0; label_count],
        pass_at_1: vec![0.0; label_count],
        pass_at_group: vec![0.0; label_count],
        bands: vec![0; label_count * BANDS.len()],
    };
    for task in 0..tasks {
        let (label, band) = (label_of_task[task] as usize, usize::from(band[task]));
        if label >= label_count {
            return Err(RowsError::value("label_of_task", task, label, "must be below the number of labels"));
        }
        if band >= BANDS.len() {
            return Err(RowsError::value("band", task, band, "names no band"));
        }
        out.tasks[label] += 1;
        out.pass_at_1[label] += pass_at_1[task];
        out.pass_at_group[label] += pass_at_group[task];
        out.bands[label * BANDS.len() + band] += 1;
    }
    for (label, &count) in out.tasks.iter().enumerate() {
        out.pass_at_1[label] /= count as f64;
        out.pass_at_group[label] /= count as f64;
    }
    Ok(out)
}

fn band(rate: f64) -> u8 {
    match rate {
        rate if rate <= 0.05 => 0,
        rate if rate <= 0.2 => 1,
        rate if rate < 0.8 => 2,
        rate if rate < 0.95 => 3,
        _ => 4,
    }
}

/// The weight of evidence that is `age` versions old.
fn faded(age: i64) -> f64 {
    libm::exp2(-(age.max(0) as f64) / HALF_LIFE_VERSIONS)
}

pub(crate) fn check_group_size(size: u32) -> Result<(), RowsError> {
    if (1..=GROUP_LIMIT).contains(&size) {
        return Ok(());
    }
    Err(RowsError::value("group_size", 0, size, "must lie between 1 and 4096"))
}

pub(crate) fn check_parameters(alpha: &[f64], beta: &[f64]) -> Result<(), RowsError> {
    check_length("beta", beta.len(), alpha.len())?;
    for (column, values) in [("alpha", alpha), ("beta", beta)] {
        // One less than the bits of a zero are all set.
        if has_sign(values, |bits| suspect(bits) | bits.wrapping_sub(1)) {
            check_each(column, values, |value| value > 0.0, "must be a positive number")?;
        }
    }
    Ok(())
}

fn check_evidence(evidence: &Evidence<'_>) -> Result<(), RowsError> {
    let tasks = evidence.version.len();
    check_length("passes", evidence.passes.len(), tasks)?;
    check_length("failures", evidence.failures.len(), tasks)?;
    for (column, values) in [("passes", evidence.passes), ("failures", evidence.failures)] {
        if has_sign(values, suspect) {
            check_each(column, values, |value| value >= 0.0, "must be 0 or more")?;
        }
    }
    Ok(())
}

/// Whether any of the words that are made of the bits of the values has its highest bit set: in whole words, and without an exit, so
/// that the loop is vectorised.
fn has_sign(values: &[f64], word: impl Fn(u64) -> u64) -> bool {
    values.iter().fold(0, |seen, value| seen | word(value.to_bits())) >> 63 != 0
}

/// A word with its highest bit set for a number below 0, -0, an infinity, and what is no number: the sign, or a carry into it out of an
/// exponent that is all ones.
fn suspect(bits: u64) -> u64 {
    bits | bits.wrapping_add(1 << 52)
}

fn check_each(
    column: &'static str,
    values: &[f64],
    is_fine: impl Fn(f64) -> bool,
    rule: &'static str,
) -> Result<(), RowsError> {
    match values.iter().position(|&value| !(is_fine(value) && value.is_finite())) {
        Some(index) => Err(RowsError::value(column, index, values[index], rule)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Evidence<'static> = Evidence { passes: &[0.0; 2], failures: &[0.0; 2], version: &[-1; 2] };

    fn attempts<'a>(task: &'a [u32], version: &'a [i64], passes: &'a [u32], failures: &'a [u32]) -> Attempts<'a> {
        Attempts { task, version, passes, failures }
    }

    #[test]
    fn evidence_fades_by_half_in_32_versions_whichever_comes_first() {
        let early_first = add_attempts(NOTHING, attempts(&[0, 0], &[0, 32], &[4, 1], &[0, 1])).unwrap();
        let late_first = add_attempts(NOTHING, attempts(&[0, 0], &[32, 0], &[1, 4], &[1, 0])).unwrap();
        assert_eq!(early_first, late_first);
        assert_eq!((early_first.passes[0], early_first.failures[0], early_first.version[0]), (3.0, 1.0, 32));
        assert_eq!(early_first.version[1], -1);
    }

    #[test]
    fn a_task_without_attempts_is_like_its_entry() {
        let evidence = Evidence { passes: &[3.0, 0.0], failures: &[1.0, 0.0], version: &[7, -1] };
        let seen = posteriors(evidence, &[0, 0], 1, 7).unwrap();
        assert_eq!(seen.entry_rate, [4.0 / 6.0]);
        assert_eq!((seen.alpha[0], seen.beta[1]), (3.0 + 2.0 * (4.0 / 6.0), 2.0 * (1.0 - 4.0 / 6.0)));
        let later = posteriors(evidence, &[0, 0], 1, 39).unwrap();
        assert_eq!(later.entry_rate, [2.5 / 4.0]);
    }

    #[test]
    fn numbers_that_are_none_are_refused_wherever_they_stand() {
        let bad = [-1.0, -f64::MIN_POSITIVE, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, f64::MIN, -5e-324];
        for (place, value) in (0..9).flat_map(|place| bad.map(|value| (place, value))) {
            let mut column = [1.0; 9];
            column[place] = value;
            let (fine, version) = ([1.0; 9], [0; 9]);
            for evidence in [
                Evidence { passes: &column, failures: &fine, version: &version },
                Evidence { passes: &fine, failures: &column, version: &version },
            ] {
                assert!(posteriors(evidence, &[0; 9], 1, 0).is_err(), "{value} at {place}");
            }
            assert!(outlook(&column, &fine, 1).is_err() && outlook(&fine, &column, 1).is_err(), "{value} at {place}");
        }
        for zero in [0.0, -0.0] {
            let evidence = Evidence { passes: &[zero], failures: &[f64::MAX], version: &[0] };
            assert!(posteriors(evidence, &[0], 1, 0).is_ok());
            assert!(outlook(&[zero], &[1.0], 1).is_err() && outlook(&[1.0], &[zero], 1).is_err());
        }
        assert!(outlook(&[5e-324], &[f64::MAX], 1).is_ok());
    }

    #[test]
    fn an_outlook_by_hand() {
        let seen = outlook(&[1.0, 19.0, 1e-3], &[1.0, 1.0, 1.0], 2).unwrap();
        assert!((seen.pass_at[0] - 2.0 / 3.0).abs() < 1e-15 && (seen.informative_at[0] - 1.0 / 3.0).abs() < 1e-15);
        assert_eq!(seen.band, [2, 4, 0]);
    }

    #[test]
    fn labels_are_summed_up() {
        let summary = label_summary(&[1, 0, 1], 2, &[0.5, 0.25, 1.0], &[0.75, 0.5, 1.0], &[2, 1, 4]).unwrap();
        assert_eq!(
            (summary.tasks, summary.pass_at_1, summary.pass_at_group),
            (vec![1, 2], vec![0.25, 0.75], vec![0.5, 0.875])
        );
        assert_eq!(summary.bands, [0, 1, 0, 0, 0, 0, 0, 1, 0, 1]);
        assert!(label_summary(&[2, 0], 2, &[0.0; 2], &[0.0; 2], &[0; 2]).is_err());
        assert!(label_summary(&[0], 1, &[0.0], &[0.0], &[5]).is_err());
        assert!(label_summary(&[0], usize::MAX, &[0.0], &[0.0], &[0]).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(add_attempts(NOTHING, attempts(&[2], &[0], &[1], &[0])).is_err());
        assert!(add_attempts(NOTHING, attempts(&[0], &[-1], &[1], &[0])).is_err());
        assert!(add_attempts(NOTHING, attempts(&[0], &[0], &[], &[0])).unwrap_err().is_shape());
        assert!(posteriors(Evidence { passes: &[f64::NAN; 2], ..NOTHING }, &[0, 0], 1, 0).is_err());
        assert!(posteriors(NOTHING, &[0, 1], 1, 0).is_err());
        assert!(posteriors(NOTHING, &[0, 0], usize::MAX, 0).is_err());
        assert!(outlook(&[0.0], &[1.0], 2).is_err() && outlook(&[1.0], &[1.0], 0).is_err());
    }
}
