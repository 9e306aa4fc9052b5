//! Kernels on row blocks.
//!
//! A block holds the training rows of one group: token columns end to end, row boundaries, one table a row and one a model call.
//! Every kernel is a pure function of borrowed slices: it checks shapes and allocates in proportion to its input. Sums run in f64 in the
//! order of the input, so that equal inputs give equal bits. Kernels that take `Threads` start at most so many less one, end them before
//! they return, and give the same result for any number.

#![allow(
    non_snake_case,
    reason = "arrays carry their dimension as a suffix: _T tokens, _R rows, _G groups, _K kept rows, _S targets"
)]

mod apply;
mod assemble;
mod block;
mod choose;
mod credit;
mod depth;
mod digest;
mod error;
mod filter;
mod items;
mod keys;
mod merge;
mod metrics;
mod owned;
mod parts;
mod philox;
mod reverse_kl;
mod runs;
mod samples;
mod side;
mod stale;
mod stored;
mod tasks;
mod thompson;

pub use apply::{apply_advantages, row_totals, scale_rows, Advantages, Applied, ErrorCounters, RowTotals};
pub use assemble::{assemble, Assembled, TrainedTokens};
pub use block::{Block, NameCounts, ACTION, ERROR, MESSAGE, NO_CALL};
pub use choose::{concat, select, NameMaps};
pub use credit::{baselines, BaselineRule};
pub use depth::{discount_weights, level_weights, surviving_starts};
pub use digest::{block_digest, Names, BLOCK_RULE};
pub use error::RowsError;
pub use filter::{filter_zero, Kept};
pub use items::Items;
pub use keys::{dense_keys, KeyColumn};
pub use merge::{Call, Chunk, Merger, Trajectory};
pub use metrics::{training_metrics, ClipBounds, TrainingMetrics};
pub use owned::OwnedBlock;
pub use parts::{Threads, TOKENS_A_THREAD};
pub use reverse_kl::{reverse_kl, ReverseKl, ReverseKlCoefficients};
pub use samples::{row_samples, RowSamples};
pub use side::Side;
pub use stale::{oldest_versions, stale_rows, Stale};
pub use stored::{from_stored, stored_part, stored_spans, PartColumns, SpanColumns, Spans, StoredPart, TokenColumns};
pub use tasks::{
    add_attempts, label_summary, outlook, posteriors, Attempts, Evidence, LabelSummary, Outlook, OwnedEvidence,
    Posteriors, BANDS, GROUP_LIMIT, HALF_LIFE_VERSIONS,
};
pub use thompson::{thompson_draw, ThompsonDraw};
