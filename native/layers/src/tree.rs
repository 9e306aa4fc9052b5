//! What must be remembered of an image's tree: who owns what is not root's, and where symbolic links lead.

use std::collections::BTreeMap;

use crate::name::components_of;

/// What an entry takes beside its name and target, and a directory beside its entries, as measured: nodes of the maps are about half full,
/// and one of them has room for eleven entries, which a directory with one does not use.
const ENTRY_BYTES: usize = 144;
const DIRECTORY_BYTES: usize = 704;

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

/// A directory below which something is remembered. It stays what it is until something takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Directory(u32);

impl Directory {
    fn index(self) -> usize {
        self.0 as usize
    }
}

const ROOT: Directory = Directory(0);

#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) node: Option<Node>,
    pub(crate) below: Option<Directory>,
}

pub(crate) type Children = BTreeMap<Box<[u8]>, Child>;

/// Nodes by directory and name. Directories lie in a list, so that no depth of theirs is one of calls.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Option<Node>,
    directories: Vec<Children>,
    free: Vec<Directory>,
    held_bytes: usize,
}

impl Default for Tree {
    fn default() -> Self {
        Self { root: None, directories: vec![Children::new()], free: Vec::new(), held_bytes: 0 }
    }
}

impl Tree {
    /// About how many bytes the nodes take.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(crate) fn root(&self) -> Directory {
        ROOT
    }

    pub(crate) fn root_node(&self) -> Option<&Node> {
        self.root.as_ref()
    }

    pub(crate) fn set_root(&mut self, node: Option<Node>) {
        self.root = node;
    }

    pub(crate) fn get(&self, directory: Directory, name: &[u8]) -> Option<&Node> {
        self.directories[directory.index()].get(name)?.node.as_ref()
    }

    pub(crate) fn holds(&self, directory: Directory, name: &[u8]) -> bool {
        self.directories[directory.index()].contains_key(name)
    }

    pub(crate) fn below(&self, directory: Directory, name: &[u8]) -> Option<Directory> {
        self.directories[directory.index()].get(name)?.below
    }

    /// The directory of a key, for what shall be remembered below it.
    pub(crate) fn make(&mut self, key: &[u8]) -> Directory {
        components_of(key).fold(ROOT, |directory, name| self.make_below(directory, name))
    }

    fn make_below(&mut self, directory: Directory, name: &[u8]) -> Directory {
        if let Some(below) = self.below(directory, name) {
            return below;
        }
        let made = self.free.pop().unwrap_or_else(|| {
            self.directories.push(Children::new());
            Directory((self.directories.len() - 1) as u32)
        });
        self.held_bytes += DIRECTORY_BYTES;
        let children = &mut self.directories[directory.index()];
        if let Some(child) = children.get_mut(name) {
            child.below = Some(made);
        } else {
            self.held_bytes += ENTRY_BYTES + name.len();
            children.insert(name.into(), Child { node: None, below: Some(made) });
        }
        made
    }

    /// Sets, or forgets, the node of a name; forgets what is below it unless it `keeps` that.
    pub(crate) fn put(&mut self, directory: Directory, name: &[u8], node: Option<Node>, keeps: bool) {
        let children = &mut self.directories[directory.index()];
        let Some(child) = children.get_mut(name) else {
            if node.is_some() {
                self.held_bytes += ENTRY_BYTES + name.len() + target_bytes(node.as_ref());
                children.insert(name.into(), Child { node, below: None });
            }
            return;
        };
        self.held_bytes += target_bytes(node.as_ref());
        let below = if keeps { None } else { child.below.take() };
        let old = std::mem::replace(&mut child.node, node);
        if child.node.is_none() && child.below.is_none() {
            children.remove(name);
            self.held_bytes -= ENTRY_BYTES + name.len();
        }
        self.held_bytes -= target_bytes(old.as_ref());
        self.drop_directories(below);
    }

    /// Forgets all that is below a directory.
    pub(crate) fn remove_below(&mut self, directory: Directory) {
        let children = self.take_children(directory);
        let below: Vec<Directory> = children.iter().filter_map(|(name, child)| self.drop_child(name, child)).collect();
        self.drop_directories(below);
    }

    fn drop_directories(&mut self, directories: impl IntoIterator<Item = Directory>) {
        let mut pending: Vec<Directory> = directories.into_iter().collect();
        while let Some(directory) = pending.pop() {
            self.free.push(directory);
            self.held_bytes -= DIRECTORY_BYTES;
            let children = self.take_children(directory);
            pending.extend(children.iter().filter_map(|(name, child)| self.drop_child(name, child)));
        }
    }

    /// Counts a child off; what is below it.
    fn drop_child(&mut self, name: &[u8], child: &Child) -> Option<Directory> {
        self.held_bytes -= ENTRY_BYTES + name.len() + target_bytes(child.node.as_ref());
        child.below
    }

    /// Lays `upper` over this tree, whose nodes count, and leaves nothing there.
    pub(crate) fn overlay(&mut self, upper: &mut Tree) {
        let mut upper = std::mem::take(upper);
        if self.held_bytes == 0 {
            upper.root = upper.root.or(self.root.take());
            *self = upper;
            return;
        }
        self.root = upper.root.take().or(self.root.take());
        let mut pending = vec![(ROOT, ROOT)];
        while let Some((from, to)) = pending.pop() {
            for (name, child) in upper.take_children(from) {
                if child.node.is_some() {
                    self.put(to, &name, child.node, true);
                }
                if let Some(below) = child.below {
                    pending.push((below, self.make_below(to, &name)));
                }
            }
        }
    }

    pub(crate) fn take_children(&mut self, directory: Directory) -> Children {
        std::mem::take(&mut self.directories[directory.index()])
    }
}

fn target_bytes(node: Option<&Node>) -> usize {
    const ALLOCATION_BYTES: usize = 24;
    node.and_then(|node| node.target.as_ref()).map_or(0, |target| target.len() + ALLOCATION_BYTES)
}
