//! Small numbers for the keys of agents, whatever the columns that make them.

use std::collections::HashMap;

use crate::error::{check_length, RowsError};

/// One column of a key.
#[derive(Debug, Clone, Copy)]
pub enum KeyColumn<'a> {
    I64(&'a [i64]),
    U32(&'a [u32]),
    U16(&'a [u16]),
}

impl KeyColumn<'_> {
    pub fn len(&self) -> usize {
        match self {
            Self::I64(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::U16(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A number for each entry, equal where all columns are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Codes {
    pub of_entry: Vec<u32>,
    /// All numbers lie below it.
    pub bound: usize,
}

/// Numbers of the keys that `columns` make, by order of first appearance.
pub fn dense_keys(columns: &[KeyColumn<'_>], entries: usize) -> Result<Vec<i64>, RowsError> {
    let codes = codes(columns, entries)?;
    let mut numbers = vec![u32::MAX; codes.bound];
    let mut next = 0;
    let number = |&code: &u32| {
        let number = &mut numbers[code as usize];
        if *number == u32::MAX {
            *number = next;
            next += 1;
        }
        i64::from(*number)
    };
    Ok(codes.of_entry.iter().map(number).collect())
}

/// Numbers below a bound in proportion to `entries`.
///
/// Columns of small range are taken as digits; where their product would be too large, what there is so far is numbered by appearance.
pub(crate) fn codes(columns: &[KeyColumn<'_>], entries: usize) -> Result<Codes, RowsError> {
    if columns.is_empty() {
        return Err(RowsError::Rule { rule: "a key needs at least one of task, policy, role and depth" });
    }
    if entries >= u32::MAX as usize / 4 {
        return Err(RowsError::Rule { rule: "there are fewer than 2^30 agents" });
    }
    let bound = 2 * entries + 1024;
    let mut codes = Codes { of_entry: vec![0; entries], bound: 1 };
    for column in columns {
        match *column {
            KeyColumn::I64(values) => codes.append(values, bound)?,
            KeyColumn::U32(values) => codes.append(values, bound)?,
            KeyColumn::U16(values) => codes.append(values, bound)?,
        }
    }
    Ok(codes)
}

impl Codes {
    fn append<T: Copy + Into<i64>>(&mut self, values: &[T], bound: usize) -> Result<(), RowsError> {
        check_length("key", values.len(), self.of_entry.len())?;
        let (least, most) = values.iter().fold((i64::MAX, i64::MIN), |(least, most), &value| {
            let value = value.into();
            (least.min(value), most.max(value))
        });
        if values.is_empty() {
            return Ok(());
        }
        let range = i128::from(most) - i128::from(least) + 1;
        if let Some(product) = product_below(self.bound, range, bound) {
            let (range, digits) = (range as u32, self.of_entry.iter_mut().zip(values));
            digits.for_each(|(code, &value)| *code = *code * range + (value.into() - least) as u32);
            self.bound = product;
            return Ok(());
        }
        let mut numbers: HashMap<(u32, i64), u32> = HashMap::new();
        for (code, &value) in self.of_entry.iter_mut().zip(values) {
            let next = numbers.len() as u32;
            *code = *numbers.entry((*code, value.into())).or_insert(next);
        }
        self.bound = numbers.len();
        Ok(())
    }
}

fn product_below(codes: usize, range: i128, bound: usize) -> Option<usize> {
    let product = (codes as i128).checked_mul(range)?;
    usize::try_from(product).ok().filter(|&product| product <= bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbered_as_they_come_whatever_their_size() {
        let small: &[i64] = &[7, 9, 7, 8, 9];
        let huge: &[i64] = &[i64::MIN, i64::MAX, i64::MIN, 0, i64::MAX];
        for column in [small, huge] {
            assert_eq!(dense_keys(&[KeyColumn::I64(column)], 5).unwrap(), [0, 1, 0, 2, 1]);
        }
        let both = [KeyColumn::I64(huge), KeyColumn::U16(&[0, 0, 1, 1, 0]), KeyColumn::U32(&[u32::MAX, 0, 0, 0, 0])];
        assert_eq!(dense_keys(&both, 5).unwrap(), [0, 1, 2, 3, 1]);
        assert_eq!(dense_keys(&[KeyColumn::I64(&[])], 0).unwrap(), Vec::<i64>::new());
    }

    #[test]
    fn columns_fit_together() {
        assert!(dense_keys(&[], 3).is_err());
        assert!(dense_keys(&[KeyColumn::U16(&[1]), KeyColumn::U16(&[1, 2])], 1).unwrap_err().is_shape());
    }
}
