//! Stored columns of any content: token columns that hold what was stored, or an error; and what makes a block comes back as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use platoon_rows::{
    from_stored, stored_part, stored_spans, Block, NameCounts, PartColumns, RowsError, Side, SpanColumns, Spans,
    StoredPart, TokenColumns, NO_CALL,
};

const PARTS: u8 = 4;
/// Of no version, so that a row of any of them has none.
const CALLS: usize = 4;

fuzz_target!(|data: &[u8]| {
    let (parts, spans) = Stored(data).read();
    let Ok(columns) = restored(&parts, &spans) else { return };
    let count = parts.iter().map(|part| part.token_low.len()).sum();
    assert_eq!([columns.tokens.len(), columns.logprobs.len(), columns.flags.len(), columns.call.len()], [count; 4]);
    let low = parts.iter().flat_map(|part| part.token_low.iter().copied());
    assert!(columns.tokens.iter().map(|&token| token as u16).eq(low));
    let mut halves = parts.iter().flat_map(|part| part.logprob_low.iter().zip(&part.logprob_high));
    for token in 0..count {
        let span = (0..spans.start.len()).find(|&span| (spans.start[span]..spans.end[span]).contains(&(token as i64)));
        let (flags, call) = span.map_or((0, NO_CALL), |span| (spans.flags[span], spans.call[span]));
        let bits = span.map_or(0, |_| {
            halves.next().map(|(&low, &high)| u32::from(high) << 16 | u32::from(low)).expect("one each")
        });
        assert_eq!((columns.flags[token], columns.call[token], columns.logprobs[token].to_bits()), (flags, call, bits));
    }
    assert!(halves.next().is_none());
    assert_comes_back(&columns, &spans, parts.first().map_or(1, |part| part.token_low.len().max(1)));
    let rows = i64::from(count > 0);
    let offsets: Vec<i64> = [0].into_iter().chain((rows > 0).then_some(count as i64)).collect();
    let block = block(&columns, &offsets, rows as usize);
    if block.check(NameCounts { policies: 1, roles: 1, side: 0 }).is_ok() {
        let spans = stored_spans(&block).expect("is a block");
        assert_comes_back(&columns, &spans, 13);
    }
});

/// Stored in parts of so many tokens.
fn assert_comes_back(columns: &TokenColumns, spans: &Spans, size: usize) {
    let count = columns.tokens.len();
    let part = |first: usize| {
        let range = first..(first + size).min(count);
        stored_part(&columns.tokens, &columns.logprobs, &spans.start, &spans.end, range).expect("lies within")
    };
    let parts: Vec<StoredPart> = (0..count).step_by(size).map(part).collect();
    let again = restored(&parts, spans).expect("was stored here");
    let bits = |columns: &TokenColumns| columns.logprobs.iter().map(|logprob| logprob.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&again), bits(columns));
    assert_eq!(
        (again.tokens, again.flags, again.call),
        (columns.tokens.clone(), columns.flags.clone(), columns.call.clone())
    );
}

fn restored(parts: &[StoredPart], spans: &Spans) -> Result<TokenColumns, RowsError> {
    let Spans { start, end, call, flags } = spans;
    from_stored(&parts.iter().map(lent).collect::<Vec<_>>(), SpanColumns { start, end, call, flags })
}

fn lent(part: &StoredPart) -> PartColumns<'_> {
    let StoredPart { token_low, token_planes, logprob_low, logprob_high } = part;
    PartColumns { token_low, token_planes, logprob_low, logprob_high }
}

/// All tokens in one row.
fn block<'a>(columns: &'a TokenColumns, offsets: &'a [i64], rows: usize) -> Block<'a> {
    Block {
        tokens: &columns.tokens,
        logprobs: &columns.logprobs,
        flags: &columns.flags,
        call: &columns.call,
        offsets,
        call_policy: &[0; CALLS],
        call_version: &[-1; CALLS],
        call_routing: &[-1; CALLS],
        row_member: &[0][..rows],
        row_trajectory: &[0][..rows],
        row_policy: &[0][..rows],
        row_role: &[0][..rows],
        row_depth: &[0][..rows],
        row_start: &[0][..rows],
        row_reward: &[0.0][..rows],
        row_version: &[-1][..rows],
        side: Side::EMPTY,
    }
}

/// Bytes read as stored columns: zeros where there are no more.
struct Stored<'a>(&'a [u8]);

impl Stored<'_> {
    fn read(mut self) -> (Vec<StoredPart>, Spans) {
        let kind = self.byte();
        let mut parts: Vec<StoredPart> = (0..kind % PARTS).map(|_| self.part()).collect();
        let mut spans = Spans::default();
        for _ in 0..self.byte() % 16 {
            // From where the one before ended, which most should be, or from anywhere.
            let last = spans.end.last().copied().unwrap_or_default();
            let start = last + i64::from(self.byte() as i8);
            let end = start + i64::from(self.byte() as i8);
            spans.start.push(if kind & 0x40 == 0 { start } else { start << 56 });
            spans.end.push(end);
            spans.call.push(u32::from(self.byte() % 8));
            spans.flags.push(self.byte());
        }
        // As many logprobs as the spans say, but for one input in two.
        if let (Some(part), true) = (parts.last_mut(), kind & 0x80 == 0) {
            let sampled: i64 =
                spans.start.iter().zip(&spans.end).map(|(start, end)| end.saturating_sub(*start).clamp(0, 999)).sum();
            let count = sampled as usize;
            part.logprob_low.resize(count, 0x1234);
            part.logprob_high.resize(count, 0xbf00);
            parts.iter_mut().rev().skip(1).for_each(|part| (part.logprob_low, part.logprob_high) = Default::default());
        }
        (parts, spans)
    }

    fn part(&mut self) -> StoredPart {
        let (tokens, planes, logprobs) = (self.byte(), self.byte(), self.byte());
        let plane_bytes = usize::from(tokens).div_ceil(8);
        StoredPart {
            token_low: (0..tokens).map(|_| self.short()).collect(),
            token_planes: (0..usize::from(planes % 20) * plane_bytes + usize::from(planes / 128))
                .map(|_| self.byte())
                .collect(),
            logprob_low: (0..logprobs).map(|_| self.short()).collect(),
            logprob_high: (0..logprobs).map(|_| self.short()).collect(),
        }
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }
}
