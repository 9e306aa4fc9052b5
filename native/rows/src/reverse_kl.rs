//! On-policy distillation: how far the sampler is from a teacher, as an advantage a token.

use crate::block::{check_offsets, ACTION};
use crate::error::{check_length, RowsError};

/// How much each part counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReverseKlCoefficients {
    pub kl: f64,
    pub reward: f64,
}

/// What is added for a token, and what is told of all.
#[derive(Debug, Clone, PartialEq)]
pub struct ReverseKl {
    /// 0 off the action tokens.
    pub advantages_T: Vec<f32>,
    pub action_tokens: u64,
    /// Mean of student minus teacher over the action tokens; not a number without any.
    pub mean: f64,
}

/// `-kl * (student - teacher) + reward * value` on action tokens, in f64, rounded once.
///
/// `student` and `teacher` hold the logprob of each token; the first of a row has none and is not read. `values` has one entry a row: its
/// reward less its baseline. Without a reward coefficient it is not read.
pub fn reverse_kl(
    flags: &[u8],
    offsets: &[i64],
    student: &[f32],
    teacher: &[f32],
    values: &[f64],
    coefficients: ReverseKlCoefficients,
) -> Result<ReverseKl, RowsError> {
    check_offsets(offsets, flags.len())?;
    check_length("student", student.len(), flags.len())?;
    check_length("teacher", teacher.len(), flags.len())?;
    check_length("values", values.len(), offsets.len() - 1)?;
    for coefficient in [coefficients.kl, coefficients.reward] {
        if !coefficient.is_finite() {
            return Err(RowsError::value("coefficient", 0, coefficient, "must be finite"));
        }
    }
    let mut out = ReverseKl { advantages_T: vec![0.0; flags.len()], action_tokens: 0, mean: 0.0 };
    let mut sum = 0f64;
    for (row, bounds) in offsets.windows(2).enumerate() {
        let share = if coefficients.reward == 0.0 { 0.0 } else { coefficients.reward * values[row] };
        for at in bounds[0] as usize + 1..bounds[1] as usize {
            if !teacher[at].is_finite() {
                return Err(RowsError::value("teacher", at, teacher[at], "a target has a finite logprob"));
            }
            if flags[at] & ACTION == 0 {
                continue;
            }
            if !student[at].is_finite() {
                return Err(RowsError::value("student", at, student[at], "what was sampled has a finite logprob"));
            }
            let difference = f64::from(student[at]) - f64::from(teacher[at]);
            let advantage = (share - coefficients.kl * difference) as f32;
            if !advantage.is_finite() {
                return Err(RowsError::value("advantages", at, advantage, "must be finite in single precision"));
            }
            out.advantages_T[at] = advantage;
            out.action_tokens += 1;
            sum += difference;
        }
    }
    out.mean = sum / out.action_tokens as f64;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: [u8; 5] = [0, ACTION, 0, 0, ACTION];
    const OFFSETS: [i64; 3] = [0, 3, 5];
    const STUDENT: [f32; 5] = [0.0, -1.0, 0.0, 0.0, -0.25];

    #[test]
    fn the_formula_on_action_tokens_alone() {
        let teacher = [f32::NAN, -0.5, -7.0, f32::NAN, -0.75];
        let coefficients = ReverseKlCoefficients { kl: 2.0, reward: 0.5 };
        let out = reverse_kl(&FLAGS, &OFFSETS, &STUDENT, &teacher, &[1.0, -1.0], coefficients).unwrap();
        assert_eq!(out.advantages_T, [0.0, 1.5, 0.0, 0.0, -1.5]);
        assert_eq!((out.action_tokens, out.mean), (2, 0.0));
        let alone = ReverseKlCoefficients { kl: 1.0, reward: 0.0 };
        let out = reverse_kl(&FLAGS, &OFFSETS, &STUDENT, &teacher, &[f64::NAN; 2], alone).unwrap();
        assert_eq!(out.advantages_T, [0.0, 0.5, 0.0, 0.0, -0.5]);
    }

    #[test]
    fn the_first_target_without_a_teacher_is_named() {
        let teacher = [0.0, -0.5, f32::NEG_INFINITY, 0.0, f32::NAN];
        let coefficients = ReverseKlCoefficients { kl: 1.0, reward: 0.0 };
        let error = reverse_kl(&FLAGS, &OFFSETS, &STUDENT, &teacher, &[0.0; 2], coefficients).unwrap_err();
        assert_eq!(error.to_string(), "teacher[2] is -inf: a target has a finite logprob");
        assert!(reverse_kl(&FLAGS, &OFFSETS, &STUDENT, &teacher[..4], &[0.0; 2], coefficients).unwrap_err().is_shape());
        let student = [f32::NAN, f32::NAN, f32::NAN, 0.0, f32::NAN];
        let error = reverse_kl(&FLAGS, &OFFSETS, &student, &STUDENT, &[0.0; 2], coefficients).unwrap_err();
        assert_eq!(error.to_string(), "student[1] is NaN: what was sampled has a finite logprob");
        let rewarded = ReverseKlCoefficients { reward: 1.0, ..coefficients };
        let error = reverse_kl(&FLAGS, &OFFSETS, &STUDENT, &STUDENT, &[0.0, 1e300], rewarded).unwrap_err();
        assert_eq!(error.to_string(), "advantages[4] is inf: must be finite in single precision");
        let endless = ReverseKlCoefficients { kl: f64::INFINITY, ..coefficients };
        assert!(reverse_kl(&FLAGS, &OFFSETS, &STUDENT, &STUDENT, &[0.0; 2], endless).is_err());
    }
}
