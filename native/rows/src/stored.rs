//! The form in which token columns are hashed and stored.
//!
//! Prompt tokens have no logprob, no flags and no call, and the sampled tokens of a call share the last two: what is kept is the tokens,
//! the logprobs of sampled tokens alone, and one span a run of sampled tokens. For storage the four-byte columns are cut where what a
//! compressor can do changes: the low half of a logprob is noise, which it skips; the low half of a token has the repeats of the text;
//! the few bits above it, one plane a bit, take an eighth of a byte each.

use std::ops::Range;

use crate::block::{Block, NO_CALL};
use crate::error::{check_length, RowsError};
use crate::runs::Runs;

/// Runs of sampled tokens, in order: within a row, of one call, with equal flags, as long as they can be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans {
    /// First token, counted from the start of the block.
    pub start: Vec<i64>,
    pub end: Vec<i64>,
    pub call: Vec<u32>,
    pub flags: Vec<u8>,
}

impl Spans {
    /// The spans of a checked block.
    pub(crate) fn of(block: &Block<'_>) -> Self {
        let mut spans = Self::default();
        for bounds in block.offsets.windows(2) {
            let runs = Runs::new(block.flags, block.call, bounds[0] as usize, bounds[1] as usize);
            for run in runs.filter(|run| run.flags != 0) {
                spans.start.push(run.start as i64);
                spans.end.push(run.end as i64);
                spans.call.push(run.call);
                spans.flags.push(run.flags);
            }
        }
        spans
    }

    /// Sampled tokens in all.
    pub fn token_count(&self) -> usize {
        self.start.iter().zip(&self.end).map(|(&start, &end)| (end - start) as usize).sum()
    }
}

/// What storage keeps of some of the tokens. A block is stored part by part, so that no more than a part is held twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredPart {
    /// Bits 0 to 15 of each token.
    pub token_low: Vec<u16>,
    /// The bits above, up to the highest that any token of the part has: one plane a bit, eight tokens a byte, the first in its lowest
    /// bit.
    pub token_planes: Vec<u8>,
    /// Both halves of the bits of each sampled token's logprob.
    pub logprob_low: Vec<u16>,
    pub logprob_high: Vec<u16>,
}

/// The spans of a checked block.
pub fn stored_spans(block: &Block<'_>) -> Result<Spans, RowsError> {
    block.check_shape()?;
    Ok(Spans::of(block))
}

/// The stored form of the tokens `range` of a block with these spans.
pub fn stored_part(
    tokens: &[u32],
    logprobs: &[f32],
    span_start: &[i64],
    span_end: &[i64],
    range: Range<usize>,
) -> Result<StoredPart, RowsError> {
    check_length("logprobs", logprobs.len(), tokens.len())?;
    check_spans(span_start, span_end, tokens.len())?;
    let Some(some) = tokens.get(range.clone()) else {
        return Err(RowsError::value("range", 0, range.end, "a part lies within the tokens"));
    };
    let (token_low, token_planes) = cut(some);
    let mut part = StoredPart { token_low, token_planes, ..StoredPart::default() };
    let first = span_end.partition_point(|&end| end as usize <= range.start);
    let within = span_start[first..].partition_point(|&start| (start as usize) < range.end);
    for span in first..first + within {
        let start = range.start.max(span_start[span] as usize);
        let logprobs = &logprobs[start..range.end.min(span_end[span] as usize)];
        part.logprob_low.extend(logprobs.iter().map(|logprob| logprob.to_bits() as u16));
        part.logprob_high.extend(logprobs.iter().map(|logprob| (logprob.to_bits() >> 16) as u16));
    }
    Ok(part)
}

/// Tokens a byte of a plane.
const PLANE_TOKENS: usize = 8;
/// The lowest bit that has a plane.
const FIRST_PLANE: u32 = 16;

/// Tokens cut at a time, so that they are read from memory once.
const ROUND_TOKENS: usize = 4096;

/// Low halves and planes.
fn cut(tokens: &[u32]) -> (Vec<u16>, Vec<u8>) {
    let bits = u32::BITS - tokens.iter().fold(0, |seen, &token| seen | token).leading_zeros();
    let plane_bytes = tokens.len().div_ceil(PLANE_TOKENS);
    let mut low = Vec::with_capacity(tokens.len());
    let mut planes = vec![0; plane_bytes * bits.saturating_sub(FIRST_PLANE) as usize];
    for (round, tokens) in tokens.chunks(ROUND_TOKENS).enumerate() {
        low.extend(tokens.iter().map(|&token| token as u16));
        let first = round * ROUND_TOKENS / PLANE_TOKENS;
        for (plane, bit) in planes.chunks_mut(plane_bytes.max(1)).zip(FIRST_PLANE..) {
            cut_plane(tokens, bit, &mut plane[first..]);
        }
    }
    (low, planes)
}

fn cut_plane(tokens: &[u32], bit: u32, plane: &mut [u8]) {
    let whole = tokens.chunks_exact(PLANE_TOKENS);
    let (rest, places) = (whole.remainder(), 0..);
    for (byte, tokens) in plane.iter_mut().zip(whole.clone()) {
        let (mut low, mut high) = (0, 0);
        for place in 0..PLANE_TOKENS / 2 {
            low |= (tokens[place] >> bit & 1) << place;
            high |= (tokens[place + PLANE_TOKENS / 2] >> bit & 1) << place;
        }
        *byte = (low | high << (PLANE_TOKENS / 2)) as u8;
    }
    if let Some(byte) = plane.get_mut(whole.len()).filter(|_| !rest.is_empty()) {
        *byte = rest.iter().zip(places).fold(0, |byte, (&token, place)| byte | (token >> bit & 1) << place) as u8;
    }
}

/// Puts the planes back above the low halves. `planes` holds whole planes of `tokens`.
fn add_planes(tokens: &mut [u32], planes: &[u8]) {
    for (plane, bit) in planes.chunks(tokens.len().div_ceil(PLANE_TOKENS).max(1)).zip(FIRST_PLANE..) {
        for (tokens, &byte) in tokens.chunks_mut(PLANE_TOKENS).zip(plane) {
            // Most bits above the low half are 0.
            if byte != 0 {
                tokens.iter_mut().zip(0..).for_each(|(token, place)| *token |= u32::from(byte >> place & 1) << bit);
            }
        }
    }
}

/// A part as it was read, of any content.
#[derive(Debug, Clone, Copy)]
pub struct PartColumns<'a> {
    pub token_low: &'a [u16],
    pub token_planes: &'a [u8],
    pub logprob_low: &'a [u16],
    pub logprob_high: &'a [u16],
}

/// Spans as they were read, of any content.
#[derive(Debug, Clone, Copy)]
pub struct SpanColumns<'a> {
    pub start: &'a [i64],
    pub end: &'a [i64],
    pub call: &'a [u32],
    pub flags: &'a [u8],
}

/// The token columns of a block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenColumns {
    pub tokens: Vec<u32>,
    pub logprobs: Vec<f32>,
    pub flags: Vec<u8>,
    pub call: Vec<u32>,
}

/// The token columns that were stored. Takes 13 bytes for every 2 of `token_low`; whether the columns make a block is for its check to
/// say.
pub fn from_stored(parts: &[PartColumns<'_>], spans: SpanColumns<'_>) -> Result<TokenColumns, RowsError> {
    let tokens = parts.iter().map(|part| part.token_low.len()).sum();
    check_length("span_call", spans.call.len(), spans.start.len())?;
    check_length("span_flags", spans.flags.len(), spans.start.len())?;
    let sampled = check_spans(spans.start, spans.end, tokens)?;
    check_length("logprob_low", parts.iter().map(|part| part.logprob_low.len()).sum(), sampled)?;
    let mut columns = TokenColumns {
        tokens: Vec::with_capacity(tokens),
        logprobs: vec![0.0; tokens],
        flags: vec![0; tokens],
        call: vec![NO_CALL; tokens],
    };
    for part in parts {
        check_length("logprob_high", part.logprob_high.len(), part.logprob_low.len())?;
        check_planes(part.token_planes.len(), part.token_low.len())?;
        let first = columns.tokens.len();
        columns.tokens.extend(part.token_low.iter().map(|&low| u32::from(low)));
        add_planes(&mut columns.tokens[first..], part.token_planes);
    }
    let halves = parts.iter().flat_map(|part| part.logprob_low.iter().zip(part.logprob_high));
    let mut logprobs = halves.map(|(&low, &high)| f32::from_bits(u32::from(low) | u32::from(high) << 16));
    for span in 0..spans.start.len() {
        let (start, end) = (spans.start[span] as usize, spans.end[span] as usize);
        columns.flags[start..end].fill(spans.flags[span]);
        columns.call[start..end].fill(spans.call[span]);
        columns.logprobs[start..end].iter_mut().zip(&mut logprobs).for_each(|(place, logprob)| *place = logprob);
    }
    Ok(columns)
}

/// Planes are whole, and of bits that a token has.
fn check_planes(bytes: usize, tokens: usize) -> Result<(), RowsError> {
    let plane = tokens.div_ceil(PLANE_TOKENS);
    let planes = bytes.checked_div(plane).unwrap_or(0).min((u32::BITS - FIRST_PLANE) as usize);
    check_length("token_planes", bytes, planes * plane)
}

/// Spans rise, hold tokens, and lie within the block. Gives the number of their tokens.
fn check_spans(start: &[i64], end: &[i64], tokens: usize) -> Result<usize, RowsError> {
    check_length("span_end", end.len(), start.len())?;
    let (mut sampled, mut previous) = (0usize, 0i64);
    for (span, (&start, &end)) in start.iter().zip(end).enumerate() {
        if start < previous {
            return Err(RowsError::value("span_start", span, start, "spans rise and do not overlap"));
        }
        if end <= start || u64::try_from(end).map_or(true, |end| end > tokens as u64) {
            return Err(RowsError::value("span_end", span, end, "a span holds tokens of the block"));
        }
        sampled += (end - start) as usize;
        previous = end;
    }
    Ok(sampled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_hold_the_bits_above_the_low_half() {
        let tokens: Vec<u32> = (0..19).map(|place| if place % 3 == 0 { 5 } else { 0x2_0000 << (place % 7) }).collect();
        let (_, planes) = cut(&tokens);
        assert_eq!(planes.len(), 8 * 3);
        let mut low: Vec<u32> = tokens.iter().map(|&token| token & 0xffff).collect();
        add_planes(&mut low, &planes);
        assert_eq!(low, tokens);
        assert_eq!((cut(&[0xffff; 9]).1.len(), cut(&[]).1.len()), (0, 0));
    }

    #[test]
    fn parts_of_any_size_make_the_same_columns() {
        let tokens: Vec<u32> = (0..40).map(|token| token * 70_001 % 300_007).collect();
        let logprobs: Vec<f32> = (0..40)
            .map(|token| if (5..9).contains(&token) || token >= 22 { -0.5 - token as f32 } else { 0.0 })
            .collect();
        let spans = SpanColumns { start: &[5, 22, 30], end: &[9, 30, 40], call: &[0, 1, 2], flags: &[1, 4, 3] };
        for size in [1, 7, 8, 23, 40, 64] {
            let cuts: Vec<usize> = (0..40).step_by(size).collect();
            let parts: Vec<StoredPart> = cuts
                .iter()
                .map(|&first| {
                    stored_part(&tokens, &logprobs, spans.start, spans.end, first..(first + size).min(40)).unwrap()
                })
                .collect();
            let columns = from_stored(&parts.iter().map(view).collect::<Vec<_>>(), spans).unwrap();
            assert_eq!((columns.tokens, columns.logprobs), (tokens.clone(), logprobs.clone()), "{size}");
            assert_eq!((columns.flags[8], columns.call[8], columns.call[9], columns.call[39]), (1, 0, NO_CALL, 2));
        }
        assert!(stored_part(&tokens, &logprobs, spans.start, spans.end, 0..41).is_err());
        assert!(stored_part(&tokens, &logprobs, spans.start, &[9, 30, 41], 0..4).is_err());
        assert!(stored_part(&tokens, &logprobs[1..], spans.start, spans.end, 0..4).unwrap_err().is_shape());
    }

    fn view(part: &StoredPart) -> PartColumns<'_> {
        PartColumns {
            token_low: &part.token_low,
            token_planes: &part.token_planes,
            logprob_low: &part.logprob_low,
            logprob_high: &part.logprob_high,
        }
    }

    #[test]
    fn stored_columns_that_do_not_fit_are_refused() {
        let part =
            PartColumns { token_low: &[1; 9], token_planes: &[0; 4], logprob_low: &[0; 2], logprob_high: &[0; 2] };
        let spans = SpanColumns { start: &[7], end: &[9], call: &[0], flags: &[1] };
        assert_eq!(from_stored(&[part], spans).unwrap().flags, [0, 0, 0, 0, 0, 0, 0, 1, 1]);
        for broken in [
            PartColumns { token_planes: &[0; 3], ..part },
            PartColumns { token_planes: &[0; 2 * 17], ..part },
            PartColumns { token_low: &[], ..part },
            PartColumns { logprob_low: &[0; 3], logprob_high: &[0; 3], ..part },
            PartColumns { logprob_high: &[], ..part },
        ] {
            assert!(from_stored(&[broken], spans).is_err(), "{broken:?}");
        }
        for broken in [
            SpanColumns { start: &[6], ..spans },
            SpanColumns { start: &[-1], ..spans },
            SpanColumns { end: &[10], ..spans },
            SpanColumns { end: &[7], ..spans },
            SpanColumns { end: &[i64::MIN], ..spans },
            SpanColumns { flags: &[], ..spans },
            SpanColumns { call: &[], ..spans },
        ] {
            assert!(from_stored(&[part], broken).is_err(), "{broken:?}");
        }
    }
}
