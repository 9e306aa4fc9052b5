//! Runs of equal tokens: the pieces that sampled a row, one after the other.

/// Tokens of one row that lie side by side: prompt tokens (`flags` 0), or tokens of one call with equal flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub start: usize,
    pub end: usize,
    pub flags: u8,
    /// The call of the first token.
    pub call: u32,
}

/// The runs of the tokens `start..end`, in order. Both columns hold at least `end` entries.
#[derive(Debug, Clone)]
pub(crate) struct Runs<'a> {
    flags: &'a [u8],
    call: &'a [u32],
    at: usize,
    end: usize,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(flags: &'a [u8], call: &'a [u32], start: usize, end: usize) -> Self {
        Self { flags, call, at: start, end }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        if self.at >= self.end {
            return None;
        }
        let (start, flags, call) = (self.at, self.flags[self.at], self.call[self.at]);
        let mut length = equal_prefix::<u8, 32>(&self.flags[start..self.end], flags);
        if flags != 0 {
            length = equal_prefix::<u32, 16>(&self.call[start..start + length], call);
        }
        self.at = start + length;
        Some(Run { start, end: self.at, flags, call })
    }
}

/// How many of the first entries are `value`, in steps of N that the compiler turns into vector comparisons.
fn equal_prefix<T: Copy + PartialEq, const N: usize>(values: &[T], value: T) -> usize {
    let pattern = [value; N];
    let whole = N * values.chunks_exact(N).take_while(|chunk| **chunk == pattern).count();
    whole + values[whole..].iter().take_while(|&&entry| entry == value).count()
}

/// True where every entry is below 2^31.
pub(crate) fn are_token_ids(tokens: &[u32]) -> bool {
    tokens.iter().fold(0, |seen, &token| seen | token) >> 31 == 0
}

/// True where every entry is finite.
pub(crate) fn are_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    !values.iter().fold(false, |seen, value| seen | (value.to_bits() & EXPONENT == EXPONENT))
}

/// True where every entry is positive zero.
pub(crate) fn are_zero(values: &[f32]) -> bool {
    values.iter().fold(0, |seen, value| seen | value.to_bits()) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_part_where_flags_or_the_call_of_sampled_tokens_change() {
        let flags: Vec<u8> = [vec![0; 40], vec![1; 70], vec![3; 2]].concat();
        let call: Vec<u32> = [vec![9; 20], vec![8; 20], vec![4; 33], vec![5; 39]].concat();
        let found: Vec<(usize, usize, u8)> =
            Runs::new(&flags, &call, 0, 112).map(|run| (run.start, run.end, run.flags)).collect();
        assert_eq!(found, [(0, 40, 0), (40, 73, 1), (73, 110, 1), (110, 112, 3)]);
        assert_eq!(Runs::new(&flags, &call, 39, 41).count(), 2);
        assert_eq!(Runs::new(&flags, &call, 5, 5).count(), 0);
    }

    #[test]
    fn the_folds_see_every_place() {
        for at in [0, 5, 63, 99] {
            let (mut tokens, mut values) = (vec![7u32; 100], vec![-0.5f32; 100]);
            assert!(are_token_ids(&tokens) && are_finite(&values));
            tokens[at] = 1 << 31;
            values[at] = f32::NAN;
            assert!(!are_token_ids(&tokens) && !are_finite(&values));
            let mut zeros = vec![0f32; 100];
            assert!(are_zero(&zeros));
            zeros[at] = -0.0;
            assert!(!are_zero(&zeros));
        }
    }
}
