//! What must be remembered of an image's tree: who owns what is not root's, and where symbolic links lead.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::name::is_within;

/// Beside its key and target, what an entry takes in a tree, roughly.
const ENTRY_BYTES: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) is_directory: bool,
    /// Where a symbolic link leads, as it is written.
    pub(crate) target: Option<Box<[u8]>>,
}

impl Node {
    /// A missing node stands for a directory of root's, or a file of root's: nothing here needs to tell them apart.
    pub(crate) fn is_remembered(&self) -> bool {
        self.uid != 0 || self.gid != 0 || self.target.is_some()
    }
}

/// Nodes by key (`name.rs`), so that a directory stands right before all that is below it.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<Box<[u8]>, Node>,
    held_bytes: usize,
}

impl Tree {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Node> {
        self.nodes.get(key)
    }

    /// About how many bytes the nodes take.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(crate) fn insert(&mut self, key: &[u8], node: Node) {
        self.held_bytes += held_bytes(key, &node);
        if let Some(old) = self.nodes.insert(key.into(), node) {
            self.held_bytes -= held_bytes(key, &old);
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8]) {
        if let Some(old) = self.nodes.remove(key) {
            self.held_bytes -= held_bytes(key, &old);
        }
    }

    /// Removes `key` and all below it.
    pub(crate) fn remove_subtree(&mut self, key: &[u8]) {
        while let Some(found) = self.first_from(Bound::Included(key), key) {
            self.remove(&found);
        }
    }

    /// Removes all below `key`.
    pub(crate) fn remove_below(&mut self, key: &[u8]) {
        while let Some(found) = self.first_from(Bound::Excluded(key), key) {
            self.remove(&found);
        }
    }

    pub(crate) fn holds_below(&self, key: &[u8]) -> bool {
        self.first_from(Bound::Excluded(key), key).is_some()
    }

    fn first_from(&self, start: Bound<&[u8]>, key: &[u8]) -> Option<Box<[u8]>> {
        let (found, _) = self.nodes.range::<[u8], _>((start, Bound::Unbounded)).next()?;
        is_within(found, key).then(|| found.clone())
    }

    /// Lays `upper` over this tree: its nodes count.
    pub(crate) fn overlay(&mut self, upper: &mut Tree) {
        if self.nodes.is_empty() {
            return std::mem::swap(self, upper);
        }
        for (key, node) in std::mem::take(&mut upper.nodes) {
            self.insert(&key, node);
        }
        upper.held_bytes = 0;
    }

    pub(crate) fn into_nodes(self) -> impl Iterator<Item = (Box<[u8]>, Node)> {
        self.nodes.into_iter()
    }
}

fn held_bytes(key: &[u8], node: &Node) -> usize {
    ENTRY_BYTES + key.len() + node.target.as_ref().map_or(0, |target| target.len())
}
