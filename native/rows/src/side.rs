//! The side table: what a row holds beside its tokens.
//!
//! An entry with a length is a chunk of the prompt that is not text: it covers that many tokens of its row, which are 0. An entry without
//! one is a loss input that the row brings along. Both name bytes in a table of items that nothing here looks into.

use crate::error::{check_length, RowsError};

/// Entries by row, then loss inputs by name, then chunks by place.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    pub row: &'a [u32],
    /// First token covered, counted from the start of the row.
    pub at: &'a [u32],
    pub length: &'a [u32],
    /// Index into the side names of the block.
    pub name: &'a [u16],
    pub item: &'a [u32],
    /// Bounds of the items in `bytes`.
    pub item_offsets: &'a [i64],
    pub item_bytes: &'a [u8],
}

impl Side<'_> {
    /// A table without entries.
    pub const EMPTY: Side<'static> =
        Side { row: &[], at: &[], length: &[], name: &[], item: &[], item_offsets: &[0], item_bytes: &[] };
}

/// The columns of a block that its side table points into; `offsets` cut the tokens into rows.
pub(crate) struct Rows<'a> {
    pub offsets: &'a [i64],
    pub tokens: &'a [u32],
    pub flags: &'a [u8],
}

/// Checks the side table of a block whose other columns keep the rules.
pub(crate) fn check_side(side: &Side<'_>, rows: &Rows<'_>, name_count: usize) -> Result<(), RowsError> {
    let entries = side.row.len();
    check_length("side_at", side.at.len(), entries)?;
    check_length("side_length", side.length.len(), entries)?;
    check_length("side_name", side.name.len(), entries)?;
    check_length("side_item", side.item.len(), entries)?;
    check_items(side)?;
    let mut used = 0;
    let mut previous = Place { row: 0, end: 0, name: None };
    for entry in 0..entries {
        let name = side.name[entry];
        if usize::from(name) >= name_count {
            return Err(RowsError::value("side_name", entry, name, "names no side name of the block"));
        }
        let item = side.item[entry] as usize;
        if item > used {
            return Err(RowsError::value("side_item", entry, item, "items stand in the order of their first use"));
        }
        used = used.max(item + 1);
        previous = check_entry(side, rows, entry, previous)?;
    }
    check_length("item_offsets", side.item_offsets.len(), used + 1)
}

/// Where the entry before ended: the next one of the same row goes on from there.
struct Place {
    row: u32,
    end: u32,
    /// The name of a loss input; None after a chunk.
    name: Option<u16>,
}

fn check_entry(side: &Side<'_>, rows: &Rows<'_>, entry: usize, previous: Place) -> Result<Place, RowsError> {
    let (row, at, length) = (side.row[entry], side.at[entry], side.length[entry]);
    let place = row as usize;
    if place + 1 >= rows.offsets.len() {
        return Err(RowsError::value("side_row", entry, row, "names no row of the block"));
    }
    let is_first = entry == 0 || row != previous.row;
    if row < previous.row {
        return Err(RowsError::value("side_row", entry, row, "rows rise"));
    }
    if length == 0 {
        let is_in_order = is_first || previous.name.is_some_and(|name| name < side.name[entry]);
        if at != 0 || !is_in_order {
            return Err(RowsError::value("side_at", entry, at, "loss inputs stand at 0, by name, before chunks"));
        }
        return Ok(Place { row, end: 0, name: Some(side.name[entry]) });
    }
    if !is_first && at < previous.end {
        return Err(RowsError::value("side_at", entry, at, "chunks rise and do not overlap"));
    }
    let end = at.checked_add(length);
    let (start, stop) = (rows.offsets[place], rows.offsets[place + 1]);
    let Some(end) = end.filter(|&end| i64::from(end) < stop - start) else {
        return Err(RowsError::value("side_length", entry, length, "a chunk ends before the last token of its row"));
    };
    let covered = start as usize + at as usize..start as usize + end as usize;
    if rows.tokens[covered.clone()].iter().any(|&token| token != 0) {
        return Err(RowsError::value("side_at", entry, at, "the tokens of a chunk are 0"));
    }
    if rows.flags[covered].iter().any(|&flags| flags != 0) {
        return Err(RowsError::value("side_at", entry, at, "a chunk is part of the prompt"));
    }
    Ok(Place { row, end, name: None })
}

fn check_items(side: &Side<'_>) -> Result<(), RowsError> {
    let Some(&first) = side.item_offsets.first() else {
        return Err(RowsError::Length { column: "item_offsets", got: 0, expected: 1 });
    };
    if first != 0 {
        return Err(RowsError::value("item_offsets", 0, first, "the first offset is 0"));
    }
    if let Some(index) = side.item_offsets.windows(2).position(|bounds| bounds[1] < bounds[0]) {
        return Err(RowsError::value("item_offsets", index + 1, side.item_offsets[index + 1], "offsets do not fall"));
    }
    let last = side.item_offsets[side.item_offsets.len() - 1];
    if u64::try_from(last) != Ok(side.item_bytes.len() as u64) {
        let rule = "the last offset is the number of bytes";
        return Err(RowsError::value("item_offsets", side.item_offsets.len() - 1, last, rule));
    }
    Ok(())
}
