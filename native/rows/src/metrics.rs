//! What a step learns from the logprobs that the trainer returned.

use crate::error::{check_length, RowsError};

/// Bounds of the ratio itself, as the clipped losses take them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClipBounds {
    pub low: f64,
    pub high: f64,
}

/// Means over the trained targets of one microbatch. Over no target they are not a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingMetrics {
    pub tokens: u64,
    /// Mean of sampled minus training logprob.
    pub kl_sample_train_v1: f64,
    /// Half the mean square of the same difference.
    pub kl_sample_train_v2: f64,
    /// Minus the mean sampled logprob.
    pub entropy: f64,
    pub importance_weight_mean: f64,
    /// Of the sample: not a number for one token.
    pub importance_weight_std: f64,
    pub importance_weight_min: f64,
    pub importance_weight_max: f64,
    /// Shares of the tokens whose weight is below, above, and outside the bounds; 0 without bounds.
    pub clip_frac_low: f64,
    pub clip_frac_high: f64,
    pub clip_frac_total: f64,
}

/// One pass with f64 accumulators, in order of the targets.
pub fn training_metrics(
    sampled: &[f32],
    training: &[f32],
    is_trained: &[bool],
    clip: Option<ClipBounds>,
) -> Result<TrainingMetrics, RowsError> {
    check_length("training", training.len(), sampled.len())?;
    check_length("is_trained", is_trained.len(), sampled.len())?;
    let mut tokens = 0u64;
    let (mut difference_sum, mut square_sum, mut sampled_sum) = (0f64, 0f64, 0f64);
    let mut weights = Moments::new();
    let (mut low, mut high) = (0u64, 0u64);
    for target in 0..sampled.len() {
        if !is_trained[target] {
            continue;
        }
        let (q, p) = (f64::from(sampled[target]), f64::from(training[target]));
        let difference = q - p;
        let weight = (-difference).exp();
        tokens += 1;
        difference_sum += difference;
        square_sum += difference * difference;
        sampled_sum += q;
        weights.add(weight);
        if let Some(bounds) = clip {
            low += u64::from(weight < bounds.low);
            high += u64::from(weight > bounds.high);
        }
    }
    let count = tokens as f64;
    Ok(TrainingMetrics {
        tokens,
        kl_sample_train_v1: difference_sum / count,
        kl_sample_train_v2: 0.5 * square_sum / count,
        entropy: -sampled_sum / count,
        importance_weight_mean: weights.sum / count,
        importance_weight_std: weights.sample_deviation(),
        importance_weight_min: weights.min,
        importance_weight_max: weights.max,
        clip_frac_low: low as f64 / count,
        clip_frac_high: high as f64 / count,
        clip_frac_total: (low + high) as f64 / count,
    })
}

/// Mean, spread and range of a stream (Welford). A value that is not a number makes all of them so.
struct Moments {
    count: u64,
    sum: f64,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Moments {
    fn new() -> Self {
        Self { count: 0, sum: 0.0, mean: 0.0, squares: 0.0, min: f64::NAN, max: f64::NAN }
    }

    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
        // `f64::min` passes over NaN, which would hide it.
        let is_first = self.count == 1;
        self.min = if is_first || value < self.min || value.is_nan() { value } else { self.min };
        self.max = if is_first || value > self.max || value.is_nan() { value } else { self.max };
    }

    fn sample_deviation(&self) -> f64 {
        if self.count < 2 {
            return f64::NAN;
        }
        (self.squares / (self.count - 1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_case_by_hand() {
        let clip = Some(ClipBounds { low: 0.5, high: 1.5 });
        let metrics = training_metrics(&[-1.0, -2.0, 9.0], &[0.0, -3.0, 9.0], &[true, true, false], clip).unwrap();
        let (e, inverse) = (1f64.exp(), (-1f64).exp());
        assert_eq!(metrics.tokens, 2);
        assert_eq!(metrics.kl_sample_train_v1, 0.0);
        assert_eq!(metrics.kl_sample_train_v2, 0.5);
        assert_eq!(metrics.entropy, 1.5);
        assert!((metrics.importance_weight_mean - (e + inverse) / 2.0).abs() < 1e-12);
        assert!((metrics.importance_weight_std - (e - inverse) / 2f64.sqrt()).abs() < 1e-12);
        assert_eq!((metrics.importance_weight_min, metrics.importance_weight_max), (inverse, e));
        assert_eq!((metrics.clip_frac_low, metrics.clip_frac_high, metrics.clip_frac_total), (0.5, 0.5, 1.0));
    }

    #[test]
    fn nothing_trained_and_not_a_number_show() {
        assert!(training_metrics(&[0.0], &[0.0], &[false], None).unwrap().kl_sample_train_v1.is_nan());
        let metrics = training_metrics(&[0.0; 3], &[0.0, f32::NAN, 0.0], &[true; 3], None).unwrap();
        assert!(metrics.importance_weight_max.is_nan() && metrics.kl_sample_train_v2.is_nan());
    }
}
