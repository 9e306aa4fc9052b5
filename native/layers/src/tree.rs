//! What must be remembered of an image's tree: who owns what is not root's, and where symbolic links lead.

use std::collections::BTreeMap;

use crate::name::{components_of, is_metadata};
use crate::Owner;

/// Beside its name and target, what an entry and a directory take, roughly.
const ENTRY_BYTES: usize = 96;
const DIRECTORY_BYTES: usize = 64;

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
pub(crate) struct Directory(usize);

const ROOT: Directory = Directory(0);

#[derive(Debug)]
struct Child {
    node: Option<Node>,
    below: Option<Directory>,
}

type Children = BTreeMap<Box<[u8]>, Child>;

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
        self.directories[directory.0].get(name)?.node.as_ref()
    }

    pub(crate) fn below(&self, directory: Directory, name: &[u8]) -> Option<Directory> {
        self.directories[directory.0].get(name)?.below
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
            Directory(self.directories.len() - 1)
        });
        self.held_bytes += DIRECTORY_BYTES;
        let children = &mut self.directories[directory.0];
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
        let children = &mut self.directories[directory.0];
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
        let children = std::mem::take(&mut self.directories[directory.0]);
        let below: Vec<Directory> = children.iter().filter_map(|(name, child)| self.drop_child(name, child)).collect();
        self.drop_directories(below);
    }

    fn drop_directories(&mut self, directories: impl IntoIterator<Item = Directory>) {
        let mut pending: Vec<Directory> = directories.into_iter().collect();
        while let Some(directory) = pending.pop() {
            self.free.push(directory);
            self.held_bytes -= DIRECTORY_BYTES;
            let children = std::mem::take(&mut self.directories[directory.0]);
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
        self.root = upper.root.or(self.root.take());
        let mut pending = vec![(ROOT, ROOT)];
        while let Some((from, to)) = pending.pop() {
            for (name, child) in std::mem::take(&mut upper.directories[from.0]) {
                if child.node.is_some() {
                    self.put(to, &name, child.node, true);
                }
                if let Some(below) = child.below {
                    pending.push((below, self.make_below(to, &name)));
                }
            }
        }
    }

    /// What is not root's, in order of the paths' bytes.
    pub(crate) fn into_owners(mut self) -> Vec<Owner> {
        let mut owners = Vec::new();
        if let Some(Node { uid, gid, .. }) = self.root.take().filter(Node::is_remembered) {
            owners.push(Owner { path: b"/".to_vec(), uid, gid });
        }
        let mut pending = self.items(b"/", ROOT);
        while let Some((path, item)) = pending.pop() {
            match item {
                Item::Owned(uid, gid) => owners.push(Owner { path, uid, gid }),
                Item::Directory(directory) => pending.append(&mut self.items(&path, directory)),
            }
        }
        owners
    }

    /// What is in a directory whose path ends in a slash, the last first.
    fn items(&mut self, path: &[u8], directory: Directory) -> Vec<(Vec<u8>, Item)> {
        let children = std::mem::take(&mut self.directories[directory.0]);
        let mut items = Vec::with_capacity(children.len());
        let mut is_sorted = true;
        for (name, child) in children.into_iter().filter(|(name, _)| !is_metadata(name)) {
            if let Some(Node { uid, gid, .. }) = child.node.filter(|node| node.uid != 0 || node.gid != 0) {
                items.push(([path, &name].concat(), Item::Owned(uid, gid)));
            }
            if let Some(below) = child.below {
                // Names that go on with less than a slash stand between a directory and what is in it.
                items.push(([path, &name, b"/"].concat(), Item::Directory(below)));
                is_sorted = false;
            }
        }
        if !is_sorted {
            items.sort_by(|left, right| left.0.cmp(&right.0));
        }
        items.reverse();
        items
    }
}

enum Item {
    Owned(u32, u32),
    Directory(Directory),
}

fn target_bytes(node: Option<&Node>) -> usize {
    node.and_then(|node| node.target.as_ref()).map_or(0, |target| target.len())
}
