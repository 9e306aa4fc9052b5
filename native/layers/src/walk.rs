//! The owners that a tree remembers, path by path.

use std::cmp::Ordering;

use crate::name::is_metadata;
use crate::tree::{Directory, Node, Tree};

/// Gives what is not root's in order of the paths' bytes, and gives up the tree on the way. One path is held at a time.
pub(crate) struct OwnerWalk {
    tree: Tree,
    path: Vec<u8>,
    /// What is still to be given, the last first.
    pending: Vec<Item>,
}

struct Item {
    /// The directory it is in: so much of the path when its turn comes, a slash at the end.
    parent_bytes: usize,
    name: Box<[u8]>,
    kind: ItemKind,
}

#[derive(Clone, Copy)]
enum ItemKind {
    Owned { uid: u32, gid: u32 },
    Directory(Directory),
}

impl OwnerWalk {
    pub(crate) fn new(tree: Tree) -> Self {
        let root = Item { parent_bytes: 0, name: Box::default(), kind: ItemKind::Directory(tree.root()) };
        let mut pending = vec![root];
        if let Some(kind) = tree.root_node().and_then(owned) {
            pending.push(Item { parent_bytes: 0, name: (*b"/").into(), kind });
        }
        Self { tree, path: Vec::new(), pending }
    }

    /// The next path with its uid and gid.
    pub(crate) fn next(&mut self) -> Option<(&[u8], u32, u32)> {
        loop {
            let Item { parent_bytes, name, kind } = self.pending.pop()?;
            self.path.truncate(parent_bytes);
            self.path.extend_from_slice(&name);
            match kind {
                ItemKind::Owned { uid, gid } => return Some((&self.path, uid, gid)),
                ItemKind::Directory(directory) => self.open(directory),
            }
        }
    }

    /// Lines up what is in the directory that `path` names.
    fn open(&mut self, directory: Directory) {
        self.path.push(b'/');
        let (first, parent_bytes) = (self.pending.len(), self.path.len());
        let mut is_sorted = true;
        for (name, child) in self.tree.take_children(directory) {
            if is_metadata(&name) {
                continue;
            }
            let below = child.below.map(ItemKind::Directory);
            // Names that go on with less than a slash stand between a directory and what is in it.
            is_sorted &= below.is_none();
            if let (Some(kind), Some(_)) = (child.node.as_ref().and_then(owned), below) {
                self.pending.push(Item { parent_bytes, name: name.clone(), kind });
            }
            if let Some(kind) = below.or_else(|| child.node.as_ref().and_then(owned)) {
                self.pending.push(Item { parent_bytes, name, kind });
            }
        }
        let items = &mut self.pending[first..];
        if !is_sorted {
            items.sort_by(Item::compare);
        }
        items.reverse();
    }
}

impl Item {
    /// The order of paths: what is in a directory goes on with a slash.
    fn compare(&self, other: &Self) -> Ordering {
        let common = self.name.len().min(other.name.len());
        let next = |item: &Self| match (item.name.get(common), item.kind) {
            (None, ItemKind::Directory(_)) => Some(b'/'),
            (next, _) => next.copied(),
        };
        self.name[..common].cmp(&other.name[..common]).then_with(|| next(self).cmp(&next(other)))
    }
}

fn owned(node: &Node) -> Option<ItemKind> {
    (node.uid != 0 || node.gid != 0).then_some(ItemKind::Owned { uid: node.uid, gid: node.gid })
}
