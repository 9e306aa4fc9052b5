//! Byte strings, each kept once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

/// Items in the order of their first use, end to end.
#[derive(Debug, Clone)]
pub struct Items {
    bytes: Vec<u8>,
    offsets: Vec<i64>,
    by_hash: HashMap<u64, Vec<u32>>,
}

impl Default for Items {
    fn default() -> Self {
        Self { bytes: Vec::new(), offsets: vec![0], by_hash: HashMap::new() }
    }
}

impl PartialEq for Items {
    fn eq(&self, other: &Self) -> bool {
        (&self.bytes, &self.offsets) == (&other.bytes, &other.offsets)
    }
}

impl Items {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bounds of the items in `bytes`.
    pub fn offsets(&self) -> &[i64] {
        &self.offsets
    }

    /// Bytes and offsets.
    pub fn into_columns(self) -> (Vec<u8>, Vec<i64>) {
        (self.bytes, self.offsets)
    }

    pub(crate) fn get(&self, index: u32) -> &[u8] {
        let index = index as usize;
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// The index of `data`, which is added unless it is there.
    pub(crate) fn insert(&mut self, data: &[u8]) -> u32 {
        let mut hasher = DefaultHasher::new();
        hasher.write(data);
        let hash = hasher.finish();
        let known = self.by_hash.get(&hash).and_then(|indices| indices.iter().find(|&&index| self.get(index) == data));
        if let Some(&index) = known {
            return index;
        }
        let index = (self.offsets.len() - 1) as u32;
        self.bytes.extend_from_slice(data);
        self.offsets.push(self.bytes.len() as i64);
        self.by_hash.entry(hash).or_default().push(index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_are_kept_once() {
        let mut items = Items::default();
        assert_eq!([items.insert(b"a"), items.insert(b""), items.insert(b"a"), items.insert(b"bc")], [0, 1, 0, 2]);
        assert_eq!((items.bytes(), items.offsets()), (&b"abc"[..], &[0, 1, 1, 3][..]));
        assert_eq!(items.get(2), b"bc");
    }
}
