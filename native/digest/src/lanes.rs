//! SHA-256 of several short messages at once.
//!
//! One message keeps the processor's SHA unit waiting for itself: each round needs the one before. Rounds of up to four messages,
//! taken in turns, fill the gaps (twice the speed of one after another). Without that unit the messages go to the `sha2` crate.
#![allow(unsafe_code, reason = "the instructions of the SHA unit are intrinsics, and called where they were detected")]

use crate::file::Sha256Bytes;

const BLOCK: usize = 64;
/// Room for the end mark, up to a block of zeros, and the length.
pub(crate) const PADDING: usize = BLOCK + 8 + 1;

/// A message in a buffer with room for its padding behind it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) start: usize,
    pub(crate) size_bytes: usize,
}

impl Message {
    /// Where the message and its padding end.
    pub(crate) fn padded_end(self) -> usize {
        self.start + self.blocks() * BLOCK
    }

    fn blocks(self) -> usize {
        (self.size_bytes + 9).div_ceil(BLOCK)
    }

    fn end(self) -> usize {
        self.start + self.size_bytes
    }
}

/// The digests of `messages`, in their order. Pads them in `buffer`, where they do not overlap, padding included.
pub(crate) fn sha256_each(buffer: &mut [u8], messages: &[Message]) -> Vec<Sha256Bytes> {
    #[cfg(target_arch = "x86_64")]
    if has_sha_unit() {
        messages.iter().for_each(|message| pad(buffer, *message));
        // SAFETY: the features that the function is compiled for have just been found.
        return unsafe { unit::sha256_padded(buffer, messages) };
    }
    messages.iter().map(|message| crate::file::sha256_bytes([&buffer[message.start..message.end()]])).collect()
}

/// Whether this processor computes SHA-256 by instructions of its own that this crate uses for many files at once.
#[cfg(target_arch = "x86_64")]
pub fn has_sha_unit() -> bool {
    is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1") && is_x86_feature_detected!("ssse3")
}

/// Whether this processor computes SHA-256 by instructions of its own that this crate uses for many files at once.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_sha_unit() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
fn pad(buffer: &mut [u8], message: Message) {
    let padding = &mut buffer[message.end()..message.padded_end()];
    let (mark, length) = padding.split_at_mut(padding.len() - 8);
    mark.fill(0);
    mark[0] = 0x80;
    length.copy_from_slice(&(message.size_bytes as u64 * 8).to_be_bytes());
}

#[cfg(target_arch = "x86_64")]
mod unit {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_blend_epi16, _mm_loadu_si128, _mm_set_epi64x, _mm_setzero_si128,
        _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi32, _mm_shuffle_epi8,
        _mm_storeu_si128,
    };

    use super::{Message, BLOCK};
    use crate::file::Sha256Bytes;

    const LANES: usize = 4;
    /// The first 32 bits of the fractions of the square roots of the first eight primes (FIPS 180-4, 5.3.3).
    const INITIAL: [u32; 8] =
        [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];
    /// The same of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2), four a row as the rounds take them.
    const ROUNDS: [[u32; 4]; 16] = [
        [0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5],
        [0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5],
        [0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3],
        [0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174],
        [0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc],
        [0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da],
        [0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7],
        [0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967],
        [0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13],
        [0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85],
        [0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3],
        [0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070],
        [0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5],
        [0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3],
        [0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208],
        [0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2],
    ];

    /// The digests of padded messages, in their order.
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    pub(super) unsafe fn sha256_padded(buffer: &[u8], messages: &[Message]) -> Vec<Sha256Bytes> {
        // Neighbours in this order are of about one length, so that lanes seldom idle.
        let mut order: Vec<usize> = (0..messages.len()).collect();
        order.sort_by_key(|&index| messages[index].size_bytes);
        let mut digests = vec![Sha256Bytes::default(); messages.len()];
        for group in order.chunks(LANES) {
            let mut states = [INITIAL; LANES];
            let (mut done, mut first) = (0, 0);
            // The shortest of those left sets how far they go together.
            while first < group.len() {
                let blocks = messages[group[first]].blocks() - done;
                let rest: Vec<&[u8]> = group[first..]
                    .iter()
                    .map(|&index| &buffer[messages[index].start + done * BLOCK..][..blocks * BLOCK])
                    .collect();
                match *rest.as_slice() {
                    [a] => compress(&mut states[first..], [a]),
                    [a, b] => compress(&mut states[first..], [a, b]),
                    [a, b, c] => compress(&mut states[first..], [a, b, c]),
                    [a, b, c, d] => compress(&mut states[first..], [a, b, c, d]),
                    _ => {}
                }
                done += blocks;
                while first < group.len() && messages[group[first]].blocks() == done {
                    digests[group[first]] = bytes_of(states[first]);
                    first += 1;
                }
            }
        }
        digests
    }

    fn bytes_of(state: [u32; 8]) -> Sha256Bytes {
        let mut bytes = Sha256Bytes::default();
        for (word, place) in state.iter().zip(bytes.chunks_exact_mut(4)) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Takes the blocks of `messages`, which are of one length, into the states of the same places.
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn compress<const N: usize>(states: &mut [[u32; 8]], messages: [&[u8]; N]) {
        // The unit wants the eight words in two registers: a, b, e, f and c, d, g, h.
        let (mut abef, mut cdgh) = ([_mm_setzero_si128(); N], [_mm_setzero_si128(); N]);
        for lane in 0..N {
            let cdab = _mm_shuffle_epi32(load_words(&states[lane][..4]), 0b1011_0001);
            let efgh = _mm_shuffle_epi32(load_words(&states[lane][4..]), 0b0001_1011);
            abef[lane] = _mm_alignr_epi8(cdab, efgh, 8);
            cdgh[lane] = _mm_blend_epi16(efgh, cdab, 0b1111_0000);
        }
        for offset in (0..messages[0].len()).step_by(BLOCK) {
            rounds(&mut abef, &mut cdgh, messages.map(|message| &message[offset..offset + BLOCK]));
        }
        for lane in 0..N {
            let feba = _mm_shuffle_epi32(abef[lane], 0b0001_1011);
            let dchg = _mm_shuffle_epi32(cdgh[lane], 0b1011_0001);
            let (low, high) = states[lane].split_at_mut(4);
            store_words(low, _mm_blend_epi16(feba, dchg, 0b1111_0000));
            store_words(high, _mm_alignr_epi8(dchg, feba, 8));
        }
    }

    /// One block of each message.
    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    unsafe fn rounds<const N: usize>(abef: &mut [__m128i; N], cdgh: &mut [__m128i; N], blocks: [&[u8]; N]) {
        let big_endian = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        let (old_abef, old_cdgh) = (*abef, *cdgh);
        let mut schedule = [[_mm_setzero_si128(); 4]; N];
        for lane in 0..N {
            for quarter in 0..4 {
                schedule[lane][quarter] =
                    _mm_shuffle_epi8(load_bytes(&blocks[lane][16 * quarter..16 * quarter + 16]), big_endian);
            }
        }
        for (turn, constants) in ROUNDS.iter().enumerate() {
            let constants = load_words(constants);
            for lane in 0..N {
                let words = &mut schedule[lane];
                if turn >= 4 {
                    let [oldest, second, third, newest] = [0, 1, 2, 3].map(|age| words[(turn + age) % 4]);
                    let shifted = _mm_alignr_epi8(newest, third, 4);
                    let sum = _mm_add_epi32(_mm_sha256msg1_epu32(oldest, second), shifted);
                    words[turn % 4] = _mm_sha256msg2_epu32(sum, newest);
                }
                let input = _mm_add_epi32(words[turn % 4], constants);
                cdgh[lane] = _mm_sha256rnds2_epu32(cdgh[lane], abef[lane], input);
                abef[lane] = _mm_sha256rnds2_epu32(abef[lane], cdgh[lane], _mm_shuffle_epi32(input, 0b0000_1110));
            }
        }
        for lane in 0..N {
            abef[lane] = _mm_add_epi32(abef[lane], old_abef[lane]);
            cdgh[lane] = _mm_add_epi32(cdgh[lane], old_cdgh[lane]);
        }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    unsafe fn load_words(words: &[u32]) -> __m128i {
        assert!(words.len() == 4);
        _mm_loadu_si128(words.as_ptr().cast())
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    unsafe fn store_words(words: &mut [u32], value: __m128i) {
        assert!(words.len() == 4);
        _mm_storeu_si128(words.as_mut_ptr().cast(), value);
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    unsafe fn load_bytes(bytes: &[u8]) -> __m128i {
        assert!(bytes.len() == 16);
        _mm_loadu_si128(bytes.as_ptr().cast())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each message laid out behind the padding of the one before.
    fn digests_of(messages: &[Vec<u8>]) -> Vec<Sha256Bytes> {
        let mut buffer = vec![0xaa; messages.iter().map(|message| message.len() + PADDING).sum()];
        let mut placed = Vec::new();
        let mut start = 0;
        for message in messages {
            let place = Message { start, size_bytes: message.len() };
            buffer[start..place.end()].copy_from_slice(message);
            start = place.padded_end();
            placed.push(place);
        }
        sha256_each(&mut buffer, &placed)
    }

    #[test]
    fn lengths_around_a_block() {
        let messages: Vec<Vec<u8>> =
            (0..=200).map(|length| (0..length).map(|byte| (byte * 7) as u8).collect()).collect();
        for (message, digest) in messages.iter().zip(digests_of(&messages)) {
            assert_eq!(digest, crate::file::sha256_bytes([&message[..]]), "{} bytes", message.len());
        }
    }

    proptest! {
        #[test]
        fn as_the_crate_has_it(messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..700), 0..10)) {
            let expected: Vec<_> = messages.iter().map(|message| crate::file::sha256_bytes([&message[..]])).collect();
            prop_assert_eq!(digests_of(&messages), expected);
        }
    }
}
