//! Philox4x64-10: random numbers as a function of a key and a place, so that no draw depends on another (`docs/reference/task-draws.md`).

const MULTIPLIERS: [u64; 2] = [0xd2e7_470e_e14c_6c93, 0xca5a_8263_9512_1157];
const STEPS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b];
const ROUNDS: usize = 10;

/// Four words at a place of the sequence that `key` names.
pub(crate) fn philox(key: [u64; 2], mut counter: [u64; 4]) -> [u64; 4] {
    let mut key = key;
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(STEPS[0]), key[1].wrapping_add(STEPS[1])];
        }
        let first = u128::from(MULTIPLIERS[0]) * u128::from(counter[0]);
        let second = u128::from(MULTIPLIERS[1]) * u128::from(counter[2]);
        counter = [
            (second >> 64) as u64 ^ counter[1] ^ key[0],
            second as u64,
            (first >> 64) as u64 ^ counter[3] ^ key[1],
            first as u64,
        ];
    }
    counter
}

/// The words of one stream of a key, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    key: [u64; 2],
    stream: u64,
    block: u64,
    words: [u64; 4],
    used: usize,
}

impl Stream {
    pub(crate) fn new(key: [u64; 2], stream: u64) -> Self {
        Self { key, stream, block: 0, words: [0; 4], used: 4 }
    }

    pub(crate) fn word(&mut self) -> u64 {
        if self.used == self.words.len() {
            self.words = philox(self.key, [self.block, self.stream, 0, 0]);
            self.block += 1;
            self.used = 0;
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    /// Uniform, neither 0 nor 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
        ((self.word() >> 11) as f64 + 0.5) * UNIT
    }

    /// Uniform below `bound`, which is not 0 (Lemire's method).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.word()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // Of Random123, the authors' own.
        let zero = [0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b, 0x7e68b68aec7ba23b];
        assert_eq!(philox([0; 2], [0; 4]), zero);
        let ones = [0x87b092c3013fe90b, 0x438c3c67be8d0224, 0x9cc7d7c69cd777b6, 0xa09caebf594f0ba0];
        assert_eq!(philox([u64::MAX; 2], [u64::MAX; 4]), ones);
        let digits = philox(
            [0x452821e638d01377, 0xbe5466cf34e90c6c],
            [0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x082efa98ec4e6c89],
        );
        assert_eq!(digits, [0xa528f45403e61d95, 0x38c72dbd566e9788, 0xa5a1610e72fd18b5, 0x57bd43b5e52b7fe6]);
    }

    #[test]
    fn numbers_lie_in_their_ranges() {
        let mut stream = Stream::new([1, 2], 3);
        for bound in [1, 2, 3, 1 << 40, u64::MAX] {
            assert!((0..50).all(|_| stream.below(bound) < bound));
        }
        assert!((0..1000).map(|_| stream.fraction()).all(|value| value > 0.0 && value < 1.0));
    }
}
