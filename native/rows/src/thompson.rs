//! Thompson draws: the task whose next group is most likely to show both a pass and a failure (`docs/reference/task-draws.md`).

use crate::error::{check_length, RowsError};
use crate::philox::Stream;
use crate::tasks::{check_group_size, check_parameters};

/// What was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThompsonDraw {
    pub task: usize,
    /// The pass rate that was sampled for it.
    pub rate: f64,
    /// How likely its group is to be informative at that rate.
    pub score: f64,
}

/// The stream that candidates are chosen from; task i has stream i + 1.
const CHOICE: u64 = 0;
/// Marsaglia's and Tsang's bound on what is surely taken.
const SQUEEZE: f64 = 0.0331;
/// A sampled value is refused far less often than every other time: nothing but a bug takes as many trials.
const TRIALS: usize = 1000;

/// Samples a pass rate for each of up to `candidates` eligible tasks and takes the task with the best score, the first among equals.
///
/// A function of its arguments alone: each task's sample depends on `key` and its index, and on no other task. None where no task is
/// eligible.
pub fn thompson_draw(
    alpha: &[f64],
    beta: &[f64],
    is_eligible: &[bool],
    group_size: u32,
    candidates: usize,
    key: [u64; 2],
) -> Result<Option<ThompsonDraw>, RowsError> {
    check_parameters(alpha, beta)?;
    check_length("is_eligible", is_eligible.len(), alpha.len())?;
    check_group_size(group_size)?;
    let mut eligible = indices_of(is_eligible);
    if eligible.len() > candidates {
        choose(&mut eligible, candidates, key);
    }
    let sample = |task: usize| {
        let rate = beta_sample(alpha[task], beta[task], &mut Stream::new(key, task as u64 + 1));
        let score = (1.0 - power(rate, group_size) - power(1.0 - rate, group_size)).max(0.0);
        ThompsonDraw { task, rate, score }
    };
    Ok(eligible.into_iter().map(sample).reduce(|best, next| if next.score > best.score { next } else { best }))
}

/// Where an entry is true. Written without a branch on it, which nothing could predict.
fn indices_of(is_true: &[bool]) -> Vec<usize> {
    let (mut indices, mut count) = (vec![0; is_true.len()], 0);
    for (index, &is_true) in is_true.iter().enumerate() {
        indices[count] = index;
        count += usize::from(is_true);
    }
    indices.truncate(count);
    indices
}

/// Keeps `count` of the tasks, each set of them as likely as any other, in rising order.
fn choose(tasks: &mut Vec<usize>, count: usize, key: [u64; 2]) {
    let mut stream = Stream::new(key, CHOICE);
    for place in 0..count {
        let left = (tasks.len() - place) as u64;
        tasks.swap(place, place + stream.below(left) as usize);
    }
    tasks.truncate(count);
    tasks.sort_unstable();
}

/// Of parameters that are both so small, the rate is 0 or 1 but for their ratio, and logarithms of their samples leave the numbers.
const SMALLEST_PARAMETER: f64 = 1e-290;

fn beta_sample(alpha: f64, beta: f64, stream: &mut Stream) -> f64 {
    let scale = (SMALLEST_PARAMETER / alpha.max(beta)).max(1.0);
    let (alpha, beta) = (alpha * scale, beta * scale);
    let (passes, failures) = (gamma_sample_ln(alpha, stream), gamma_sample_ln(beta, stream));
    1.0 / (1.0 + libm::exp(failures - passes))
}

/// The logarithm of a sample of Gamma(shape, 1), by Marsaglia and Tsang: of a small shape the sample itself would be 0 too often.
fn gamma_sample_ln(shape: f64, stream: &mut Stream) -> f64 {
    if shape < 1.0 {
        let sample = gamma_sample_ln(shape + 1.0, stream);
        return sample + libm::log(stream.fraction()) / shape;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    for _ in 0..TRIALS {
        let z = normal_sample(stream);
        let root = 1.0 + c * z;
        if root <= 0.0 {
            continue;
        }
        let (v, u) = (root * root * root, stream.fraction());
        // The first bound implies the second, and spares most trials two logarithms.
        if u < 1.0 - SQUEEZE * (z * z) * (z * z) || libm::log(u) < 0.5 * z * z + d - d * v + d * libm::log(v) {
            return libm::log(d * v);
        }
    }
    libm::log(d)
}

/// By Box and Muller, of which the sine is left unused.
fn normal_sample(stream: &mut Stream) -> f64 {
    let radius = (-2.0 * libm::log(stream.fraction())).sqrt();
    radius * libm::cos(2.0 * std::f64::consts::PI * stream.fraction())
}

/// By squaring from the lowest bit of the exponent up.
fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_moments_of_their_distribution() {
        for (alpha, beta) in [(0.4, 0.7), (1.0, 1.0), (3.5, 9.0), (60.0, 20.0)] {
            let count = 20_000u64;
            let samples: Vec<f64> =
                (0..count).map(|index| beta_sample(alpha, beta, &mut Stream::new([index, 7], 1))).collect();
            let mean = samples.iter().sum::<f64>() / count as f64;
            let spread = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / count as f64;
            let expected = alpha / (alpha + beta);
            let variance = expected * (1.0 - expected) / (alpha + beta + 1.0);
            assert!((mean - expected).abs() < 5.0 * (variance / count as f64).sqrt(), "{alpha} {beta}: {mean}");
            assert!((spread / variance - 1.0).abs() < 0.05, "{alpha} {beta}: {spread}");
        }
    }

    #[test]
    fn a_rate_is_a_number_whatever_the_parameters_are() {
        let parameters = [5e-324, 1e-310, 1e-290, 1e-5, 1.0, 1e300, f64::MAX];
        for (alpha, beta) in parameters.iter().flat_map(|&alpha| parameters.map(|beta| (alpha, beta))) {
            let rates = (0..100).map(|index| beta_sample(alpha, beta, &mut Stream::new([index, 7], 1)));
            let sum: f64 = rates.inspect(|rate| assert!((0.0..=1.0).contains(rate), "{alpha} {beta}: {rate}")).sum();
            if alpha == beta {
                assert!((25.0..75.0).contains(&sum), "{alpha}: {sum}");
            }
        }
    }

    #[test]
    fn a_draw_depends_on_no_task_that_is_not_eligible() {
        let (alpha, beta) = (vec![1.5; 50], vec![2.5; 50]);
        let mut is_eligible = vec![true; 50];
        let draw = |is_eligible: &[bool], candidates| {
            thompson_draw(&alpha, &beta, is_eligible, 8, candidates, [3, 4]).unwrap()
        };
        let best = draw(&is_eligible, 50).unwrap();
        is_eligible[(best.task + 1) % 50] = false;
        assert_eq!(draw(&is_eligible, 50), Some(best));
        is_eligible[best.task] = false;
        assert_ne!(draw(&is_eligible, 50).unwrap().task, best.task);
        assert_eq!(draw(&[false; 50], 50), None);
        assert_eq!(draw(&is_eligible, 0), None);
    }

    #[test]
    fn a_task_between_never_and_always_wins() {
        let draw = thompson_draw(&[500.0, 50.0, 1.0], &[1.0, 50.0, 500.0], &[true; 3], 4, 10, [0, 0]).unwrap().unwrap();
        assert_eq!(draw.task, 1);
        assert!(draw.score > 0.8 && (draw.rate - 0.5).abs() < 0.3);
    }

    #[test]
    fn candidates_are_a_set_of_their_size() {
        let mut counts = [0u32; 10];
        for key in 0..1000 {
            let mut tasks: Vec<usize> = (0..10).collect();
            choose(&mut tasks, 3, [key, 0]);
            assert!(tasks.len() == 3 && tasks.is_sorted_by(|left, right| left < right));
            tasks.iter().for_each(|&task| counts[task] += 1);
        }
        assert!(counts.iter().all(|count| (230..370).contains(count)), "{counts:?}");
    }
}
