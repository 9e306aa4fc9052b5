//! The form in which token columns are hashed and stored.
//!
//! Prompt tokens have no logprob, no flags and no call, and the sampled tokens of a call share the last two: what is kept is the tokens,
//! the logprobs of sampled tokens alone, and one span a run of sampled tokens. For storage the four-byte columns are cut into the halves
//! that compress apart: the low half of a token or a logprob is noise to a compressor, which then skips it, the high half is not.

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
    /// Bits 0 to 15, 16 to 23 and 24 to 31 of each token.
    pub token_low: Vec<u16>,
    pub token_middle: Vec<u8>,
    pub token_high: Vec<u8>,
    /// Both halves of the bits of each sampled token's logprob.
    pub logprob_low: Vec<u16>,
    pub logprob_high: Vec<u16>,
    /// The columns of `Spans`.
    pub span_start: Vec<i64>,
    pub span_end: Vec<i64>,
    pub span_call: Vec<u32>,
    pub span_flags: Vec<u8>,
}

/// Tokens cut at a time: the output of a round stays in the first cache.
const ROUND: usize = 2048;

/// The stored form of a checked block.
pub fn to_stored(block: &Block<'_>) -> Result<Stored, RowsError> {
    block.check_shape()?;
    let spans = Spans::of(block);
    let (tokens, sampled) = (block.tokens.len(), spans.token_count());
    let mut stored = Stored {
        token_low: Vec::with_capacity(tokens),
        token_middle: Vec::with_capacity(tokens),
        token_high: Vec::with_capacity(tokens),
        logprob_low: Vec::with_capacity(sampled),
        logprob_high: Vec::with_capacity(sampled),
        ..Stored::default()
    };
    for round in block.tokens.chunks(ROUND) {
        stored.token_low.extend(round.iter().map(|&token| token as u16));
        stored.token_middle.extend(round.iter().map(|&token| (token >> 16) as u8));
        stored.token_high.extend(round.iter().map(|&token| (token >> 24) as u8));
    }
    for (&start, &end) in spans.start.iter().zip(&spans.end) {
        for round in block.logprobs[start as usize..end as usize].chunks(ROUND) {
            stored.logprob_low.extend(round.iter().map(|logprob| logprob.to_bits() as u16));
            stored.logprob_high.extend(round.iter().map(|logprob| (logprob.to_bits() >> 16) as u16));
        }
    }
    Ok(Stored {
        span_start: spans.start,
        span_end: spans.end,
        span_call: spans.call,
        span_flags: spans.flags,
        ..stored
    })
}

/// Borrowed columns of a stored block, of any content.
#[derive(Debug, Clone, Copy)]
pub struct StoredColumns<'a> {
    pub token_low: &'a [u16],
    pub token_middle: &'a [u8],
    pub token_high: &'a [u8],
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
    check_length("token_middle", stored.token_middle.len(), tokens)?;
    check_length("token_high", stored.token_high.len(), tokens)?;
    check_length("logprob_high", stored.logprob_high.len(), stored.logprob_low.len())?;
    check_spans(&stored, tokens)?;
    let mut columns = TokenColumns {
        tokens: Vec::with_capacity(tokens),
        logprobs: vec![0.0; tokens],
        flags: vec![0; tokens],
        call: vec![NO_CALL; tokens],
    };
    let places = stored.token_low.iter().zip(stored.token_middle).zip(stored.token_high);
    columns.tokens.extend(
        places.map(|((&low, &middle), &high)| u32::from(low) | u32::from(middle) << 16 | u32::from(high) << 24),
    );
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
