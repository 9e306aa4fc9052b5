//! Layers applied to each other, lowest first, as runtimes unpack them.

use crate::name::{
    common_ancestor, is_metadata, is_whiteout, path_of, push, read_key, special, split, Special, SEPARATOR,
};
use crate::resolve::{find, resolve};
use crate::tree::{Node, Tree};
use crate::{Fault, Kind, Layer, LayersError, Limits, Member, Members, Owner};

/// The owners of an image, from its layers, lowest first. Every digest that the layers give has been verified.
pub fn layer_owners(layers: &[Layer], limits: &Limits) -> Result<Vec<Owner>, LayersError> {
    let mut rootfs = Rootfs::new(limits);
    for layer in layers {
        rootfs.apply(&mut Members::open(layer, limits)?)?;
    }
    Ok(rootfs.into_owners())
}

/// Who owns what in the image so far.
#[derive(Debug)]
pub struct Rootfs {
    lower: Tree,
    /// What the layer that is being applied made: whiteouts act on `lower` alone, wherever they stand in the layer.
    upper: Tree,
    limits: Limits,
    key: Vec<u8>,
    target: Vec<u8>,
    parent: Parent,
}

/// The directory of the last member: most follow others of the same.
#[derive(Debug, Default)]
struct Parent {
    /// As members spell it, up to the last slash.
    given: Vec<u8>,
    key: Vec<u8>,
    /// False where the next member must resolve it again, since a link was followed, which may change, or something is in the way.
    /// Nothing that happens below a directory changes where it is.
    is_known: bool,
    /// Whether anything below it is remembered: of most directories nothing is.
    lower_holds: bool,
    upper_holds: bool,
}

impl Rootfs {
    pub fn new(limits: &Limits) -> Self {
        let limits = limits.clone();
        let (lower, upper) = (Tree::default(), Tree::default());
        Self { lower, upper, limits, key: Vec::new(), target: Vec::new(), parent: Parent::default() }
    }

    /// Lays a layer over what is there. After an error the tree is of no use.
    pub fn apply(&mut self, members: &mut Members) -> Result<(), LayersError> {
        let path = members.path().to_owned();
        while let Some(member) = members.next()? {
            if let Err(fault) = self.take(&member) {
                let entry = crate::error::shown(member.name);
                return Err(LayersError::Entry { path, offset: member.offset, entry, fault });
            }
            if self.lower.held_bytes() + self.upper.held_bytes() > self.limits.held_bytes {
                let limit = self.limits.held_bytes as u64;
                return Err(LayersError::Limit { path, what: "paths that are not root's", limit });
            }
        }
        self.lower.overlay(&mut self.upper);
        self.parent.is_known = false;
        Ok(())
    }

    /// What is not root's, in no stated order.
    pub fn into_owners(mut self) -> Vec<Owner> {
        self.lower.overlay(&mut self.upper);
        let owned = self.lower.into_nodes().filter(|(key, node)| (node.uid != 0 || node.gid != 0) && !is_metadata(key));
        owned.map(|(key, node)| Owner { path: path_of(&key), uid: node.uid, gid: node.gid }).collect()
    }

    fn take(&mut self, member: &Member) -> Result<(), Fault> {
        let (given, name) = last_component(member.name);
        if !(self.parent.is_known && self.parent.given == given && is_plain(name)) {
            let mut key = std::mem::take(&mut self.key);
            read_key(member.name, &mut key).map_err(|reason| Fault::Name { reason })?;
            if key.is_empty() {
                return self.take_root(member);
            }
            let (parent, name) = split(&key);
            self.enter(given, parent, !is_whiteout(name))?;
            self.take_named(member, name)?;
            self.key = key;
            return Ok(());
        }
        self.take_named(member, name)
    }

    /// A member of the directory that was entered.
    fn take_named(&mut self, member: &Member, name: &[u8]) -> Result<(), Fault> {
        if self.parent.key.len() + name.len() >= self.limits.path_bytes {
            return Err(Fault::Name { reason: "is too long" });
        }
        match special(name).map_err(|reason| Fault::Name { reason })? {
            Special::Opaque => self.lower.remove_below(&self.parent.key),
            Special::Whiteout(hidden) => self.hide(hidden),
            Special::None => self.put(member, name)?,
        }
        Ok(())
    }

    fn take_root(&mut self, member: &Member) -> Result<(), Fault> {
        if member.kind != Kind::Directory {
            return Err(Fault::Name { reason: "is that of the root, which is a directory" });
        }
        self.lower.remove(b"");
        self.upper.remove(b"");
        self.remember(b"", Node { uid: member.uid, gid: member.gid, is_directory: true, target: None });
        Ok(())
    }

    /// Goes to the directory that a name gives. For what stays there, whatever is in the way becomes a directory of root's.
    fn enter(&mut self, given: &[u8], parent: &[u8], stays: bool) -> Result<(), Fault> {
        // What both directories are below was looked at when the last one was entered.
        let known = if self.parent.is_known { common_ancestor(&self.parent.key, parent) } else { 0 };
        let resolved = resolve([&self.upper, &self.lower], parent, known, self.limits.path_bytes)?;
        if stays {
            for key in &resolved.in_the_way {
                self.lower.remove(key);
                self.upper.remove(key);
            }
        }
        self.parent.given.clear();
        self.parent.given.extend_from_slice(given);
        self.parent.is_known = resolved.links == 0 && (stays || resolved.in_the_way.is_empty());
        self.parent.lower_holds = self.lower.holds_below(&resolved.key);
        self.parent.upper_holds = self.upper.holds_below(&resolved.key);
        self.parent.key = resolved.key;
        Ok(())
    }

    fn hide(&mut self, name: &[u8]) {
        let mut key = self.parent.key.clone();
        push(&mut key, name);
        self.lower.remove_subtree(&key);
    }

    fn put(&mut self, member: &Member, name: &[u8]) -> Result<(), Fault> {
        let node = match member.kind {
            Kind::HardLink => self.linked(member.link)?,
            kind => Node {
                uid: member.uid,
                gid: member.gid,
                is_directory: kind == Kind::Directory,
                target: (kind == Kind::Symlink).then(|| member.link.into()),
            },
        };
        let mut key = std::mem::take(&mut self.target);
        key.clear();
        key.extend_from_slice(&self.parent.key);
        push(&mut key, name);
        for (tree, holds) in [(&mut self.lower, self.parent.lower_holds), (&mut self.upper, self.parent.upper_holds)] {
            match node.is_directory {
                _ if !holds => {}
                true => tree.remove(&key),
                false => tree.remove_subtree(&key),
            }
        }
        self.parent.upper_holds |= node.is_remembered();
        self.remember(&key, node);
        self.target = key;
        Ok(())
    }

    /// The inode that a hard link shares: what is not remembered is root's.
    fn linked(&self, link: &[u8]) -> Result<Node, Fault> {
        let mut key = Vec::new();
        read_key(link, &mut key).map_err(|reason| Fault::Target { reason })?;
        let (parent, name) = split(&key);
        let trees = [&self.upper, &self.lower];
        let mut target = resolve(trees, parent, 0, self.limits.path_bytes)?.key;
        push(&mut target, name);
        let node = find(trees, &target).cloned();
        let node = node.unwrap_or(Node { uid: 0, gid: 0, is_directory: false, target: None });
        Ok(Node { is_directory: false, ..node })
    }

    fn remember(&mut self, key: &[u8], node: Node) {
        if node.is_remembered() {
            self.upper.insert(key, node);
        }
    }
}

/// A name up to its last slash, and what follows; slashes at the end do not count.
fn last_component(name: &[u8]) -> (&[u8], &[u8]) {
    let end = name.iter().rposition(|&byte| byte != b'/').map_or(0, |position| position + 1);
    let start = name[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |position| position + 1);
    (&name[..start], &name[start..end])
}

fn is_plain(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&SEPARATOR)
}
