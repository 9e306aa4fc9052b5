//! The form in which token columns are hashed and stored.
//!
//! Prompt tokens have no logprob, no flags and no call, and the sampled tokens of a call share the last two: what is kept is the tokens,
//! the logprobs of sampled tokens alone, and one span a run of sampled tokens. For storage the four-byte columns are cut where what a
//! compressor can do changes: the low half of a logprob is noise, which it skips; the low half of a token has the repeats of the text;
//! the few bits above it, one plane a bit, take an eighth of a byte each.

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

/// What storage keeps of the token columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// Bits 0 to 15 of each token.
    pub token_low: Vec<u16>,
    /// The bits above, up to the highest that any token has: one plane a bit, eight tokens a byte, the first in its lowest bit.
    pub token_planes: Vec<u8>,
    /// Both halves of the bits of each sampled token's logprob.
    pub logprob_low: Vec<u16>,
    pub logprob_high: Vec<u16>,
    /// The columns of `Spans`.
    pub span_start: Vec<i64>,
    pub span_end: Vec<i64>,
    pub span_call: Vec<u32>,
    pub span_flags: Vec<u8>,
}

/// The stored form of a checked block.
pub fn to_stored(block: &Block<'_>) -> Result<Stored, RowsError> {
    block.check_shape()?;
    let spans = Spans::of(block);
    let sampled = spans.token_count();
    let (token_low, token_planes) = cut(block.tokens);
    let mut stored = Stored {
        token_low,
        token_planes,
        logprob_low: Vec::with_capacity(sampled),
        logprob_high: Vec::with_capacity(sampled),
        ..Stored::default()
    };
    for (&start, &end) in spans.start.iter().zip(&spans.end) {
        let logprobs = &block.logprobs[start as usize..end as usize];
        stored.logprob_low.extend(logprobs.iter().map(|logprob| logprob.to_bits() as u16));
        stored.logprob_high.extend(logprobs.iter().map(|logprob| (logprob.to_bits() >> 16) as u16));
    }
    Ok(Stored {
        span_start: spans.start,
        span_end: spans.end,
        span_call: spans.call,
        span_flags: spans.flags,
        ..stored
    })
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

/// Borrowed columns of a stored block, of any content.
#[derive(Debug, Clone, Copy)]
pub struct StoredColumns<'a> {
    pub token_low: &'a [u16],
    pub token_planes: &'a [u8],
    pub logprob_low: &'a [u16],
    pub logprob_high: &'a [u16],
    pub span_start: &'a [i64],
    pub span_end: &'a [i64],
    pub span_call: &'a [u32],
    pub span_flags: &'a [u8],
}

/// The token columns of a block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenColumns {
    pub tokens: Vec<u32>,
    pub logprobs: Vec<f32>,
    pub flags: Vec<u8>,
    pub call: Vec<u32>,
}

/// Undoes `to_stored`. Takes 13 bytes for every 4 of the tokens given; whether the columns make a block is for its check to say.
pub fn from_stored(stored: StoredColumns<'_>) -> Result<TokenColumns, RowsError> {
    let tokens = stored.token_low.len();
    check_planes(stored.token_planes.len(), tokens)?;
    check_length("logprob_high", stored.logprob_high.len(), stored.logprob_low.len())?;
    check_spans(&stored, tokens)?;
    let mut columns = TokenColumns {
        tokens: stored.token_low.iter().map(|&low| u32::from(low)).collect(),
        logprobs: vec![0.0; tokens],
        flags: vec![0; tokens],
        call: vec![NO_CALL; tokens],
    };
    add_planes(&mut columns.tokens, stored.token_planes);
    let mut from = 0;
    for span in 0..stored.span_start.len() {
        let (start, end) = (stored.span_start[span] as usize, stored.span_end[span] as usize);
        columns.flags[start..end].fill(stored.span_flags[span]);
        columns.call[start..end].fill(stored.span_call[span]);
        let low = &stored.logprob_low[from..from + end - start];
        let high = &stored.logprob_high[from..from + end - start];
        for ((logprob, &low), &high) in columns.logprobs[start..end].iter_mut().zip(low).zip(high) {
            *logprob = f32::from_bits(u32::from(low) | u32::from(high) << 16);
        }
        from += end - start;
    }
    Ok(columns)
}

/// Planes are whole, and of bits that a token has.
fn check_planes(bytes: usize, tokens: usize) -> Result<(), RowsError> {
    let plane = tokens.div_ceil(PLANE_TOKENS);
    let planes = bytes.checked_div(plane).unwrap_or(0).min((u32::BITS - FIRST_PLANE) as usize);
    check_length("token_planes", bytes, planes * plane)
}

/// Spans rise, hold tokens, and lie within the block; there is one logprob a token of theirs.
fn check_spans(stored: &StoredColumns<'_>, tokens: usize) -> Result<(), RowsError> {
    let spans = stored.span_start.len();
    check_length("span_end", stored.span_end.len(), spans)?;
    check_length("span_call", stored.span_call.len(), spans)?;
    check_length("span_flags", stored.span_flags.len(), spans)?;
    let (mut sampled, mut previous) = (0usize, 0i64);
    for span in 0..spans {
        let (start, end) = (stored.span_start[span], stored.span_end[span]);
        if start < previous {
            return Err(RowsError::value("span_start", span, start, "spans rise and do not overlap"));
        }
        if end <= start || u64::try_from(end).map_or(true, |end| end > tokens as u64) {
            return Err(RowsError::value("span_end", span, end, "a span holds tokens of the block"));
        }
        sampled += (end - start) as usize;
        previous = end;
    }
    check_length("logprob_low", stored.logprob_low.len(), sampled)
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
    fn stored_columns_that_do_not_fit_are_refused() {
        let good = StoredColumns {
            token_low: &[1; 9],
            token_planes: &[0; 4],
            logprob_low: &[0; 2],
            logprob_high: &[0; 2],
            span_start: &[7],
            span_end: &[9],
            span_call: &[0],
            span_flags: &[1],
        };
        assert_eq!(from_stored(good).unwrap().flags, [0, 0, 0, 0, 0, 0, 0, 1, 1]);
        for broken in [
            StoredColumns { token_planes: &[0; 3], ..good },
            StoredColumns { token_planes: &[0; 2 * 17], ..good },
            StoredColumns { token_low: &[], ..good },
            StoredColumns { span_start: &[6], ..good },
            StoredColumns { span_start: &[-1], ..good },
            StoredColumns { span_end: &[10], ..good },
            StoredColumns { span_end: &[7], ..good },
            StoredColumns { span_end: &[i64::MIN], ..good },
            StoredColumns { span_flags: &[], ..good },
            StoredColumns { logprob_low: &[0; 3], logprob_high: &[0; 3], ..good },
            StoredColumns { logprob_high: &[], ..good },
        ] {
            assert!(from_stored(broken).is_err(), "{broken:?}");
        }
    }
}
