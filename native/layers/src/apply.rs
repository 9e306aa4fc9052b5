//! Layers applied to each other, lowest first, as runtimes unpack them.

use std::path::PathBuf;

use memchr::{memchr, memrchr};

use crate::error::shown;
use crate::name::{is_whiteout, read_key, special, split, Special, SEPARATOR};
use crate::resolve::{find, resolve, Places, Resolved};
use crate::tree::{Node, Tree};
use crate::walk::OwnerWalk;
use crate::{Fault, Kind, Layer, LayersError, Limits, Member, Members, OwnerManifest};

/// The owner manifest of an image, from its layers, lowest first. Every digest that the layers give has been verified.
pub fn layer_manifest(layers: &[Layer], limits: &Limits) -> Result<OwnerManifest, LayersError> {
    let mut rootfs = Rootfs::new(limits);
    for layer in layers {
        rootfs.apply(&mut Members::open(layer, limits)?)?;
    }
    rootfs.into_manifest()
}

/// What following links may cost: so many names of their targets a member, and these for the image.
const LINK_NAMES_A_MEMBER: u64 = 64;
const FREE_LINK_NAMES: u64 = 1 << 20;
/// What Linux takes as the target of a link: a layer with a longer one can be unpacked nowhere.
const TARGET_BYTES: usize = 4095;

/// Who owns what in the image so far.
#[derive(Debug)]
pub struct Rootfs {
    /// What the layer that is being applied made: whiteouts act on `lower` alone, wherever they stand in the layer.
    upper: Tree,
    lower: Tree,
    limits: Limits,
    /// Of the layer that was applied last.
    path: PathBuf,
    key: Vec<u8>,
    parent: Parent,
    /// Names that may still be read from the targets of links.
    link_names: u64,
}

/// The directory of the last member: most follow others of the same.
#[derive(Debug, Default)]
struct Parent {
    /// As members spell it, up to the last slash.
    given: Vec<u8>,
    key: Vec<u8>,
    /// False where the next member must resolve it again, since a link on the way may have changed, or something is in the way.
    /// Nothing else that happens below a directory changes where it is.
    is_known: bool,
    /// Links were followed to it.
    has_links: bool,
    places: Places,
}

impl Rootfs {
    pub fn new(limits: &Limits) -> Self {
        let (upper, lower) = (Tree::default(), Tree::default());
        Self {
            upper,
            lower,
            limits: limits.clone(),
            path: PathBuf::new(),
            key: Vec::new(),
            parent: Parent::default(),
            link_names: FREE_LINK_NAMES,
        }
    }

    /// Lays a layer over what is there. After an error the tree is of no use.
    pub fn apply(&mut self, members: &mut Members) -> Result<(), LayersError> {
        self.path = members.path().to_owned();
        while let Some(member) = members.next()? {
            if let Err(fault) = self.take(&member) {
                let (path, entry) = (self.path.clone(), shown(member.name));
                return Err(LayersError::Entry { path, offset: member.offset, entry, fault });
            }
            if self.lower.held_bytes() + self.upper.held_bytes() > self.limits.held_bytes {
                let limit = self.limits.held_bytes as u64;
                let path = self.path.clone();
                return Err(LayersError::Limit { path, what: "memory for paths that are not root's", limit });
            }
        }
        self.lower.overlay(&mut self.upper);
        self.parent.is_known = false;
        Ok(())
    }

    /// What is not root's, as the one canonical list. An error names the layer that was applied last.
    pub fn into_manifest(mut self) -> Result<OwnerManifest, LayersError> {
        self.lower.overlay(&mut self.upper);
        let (mut walk, limit) = (OwnerWalk::new(self.lower), self.limits.reported_bytes);
        let (mut manifest, mut reported_bytes) = (OwnerManifest::default(), 0);
        while let Some((path, uid, gid)) = walk.next() {
            reported_bytes += path.len() as u64;
            if reported_bytes > limit {
                return Err(LayersError::Limit { path: self.path, what: "paths to report that are not root's", limit });
            }
            manifest.push(path, uid, gid);
        }
        Ok(manifest)
    }

    fn take(&mut self, member: &Member) -> Result<(), Fault> {
        self.link_names += LINK_NAMES_A_MEMBER;
        let (given, name) = last_component(member.name);
        let is_plain = is_plain(name);
        if self.parent.is_known && self.parent.given == given && is_plain {
            let node = self.node_of(member, name)?;
            return self.take_named(node, name);
        }
        let mut key = std::mem::take(&mut self.key);
        read_key(member.name, &mut key).map_err(|reason| Fault::Name { reason })?;
        if key.is_empty() {
            return self.take_root(member);
        }
        let (parent, name) = split(&key);
        // A link shares what is there before its own directory is made.
        let node = self.node_of(member, name)?;
        self.enter(given, parent, !is_whiteout(name))?;
        // Where the last component says nothing, what is before it is not the directory.
        self.parent.is_known &= is_plain;
        self.take_named(node, name)?;
        self.key = key;
        Ok(())
    }

    fn take_root(&mut self, member: &Member) -> Result<(), Fault> {
        if member.kind != Kind::Directory {
            return Err(Fault::Name { reason: "is that of the root, which is a directory" });
        }
        self.upper.set_root(Some(Node { uid: member.uid, gid: member.gid, is_directory: true, target: None }));
        Ok(())
    }

    /// Goes to the directory that a name gives. For what stays there, whatever is in the way becomes a directory of root's.
    fn enter(&mut self, given: &[u8], parent: &[u8], stays: bool) -> Result<(), Fault> {
        let resolved = self.resolve(parent)?;
        self.parent.is_known = stays || resolved.in_the_way.is_empty();
        self.parent.has_links = resolved.links > 0;
        self.parent.given.clear();
        self.parent.given.extend_from_slice(given);
        self.parent.key = resolved.key;
        self.parent.places = resolved.places;
        for (places, name) in resolved.in_the_way.iter().filter(|_| stays) {
            for (tree, place) in [&mut self.upper, &mut self.lower].into_iter().zip(places) {
                place.iter().for_each(|&place| tree.put(place, name, None, true));
            }
        }
        Ok(())
    }

    fn resolve(&mut self, key: &[u8]) -> Result<Resolved, Fault> {
        let resolved = resolve([&self.upper, &self.lower], key, self.limits.path_bytes, self.link_names)?;
        self.link_names -= resolved.link_names;
        Ok(resolved)
    }

    /// A member of the directory that was entered.
    fn take_named(&mut self, node: Node, name: &[u8]) -> Result<(), Fault> {
        if self.parent.key.len() + name.len() >= self.limits.path_bytes {
            return Err(Fault::Name { reason: "is too long" });
        }
        let [_, lower] = self.parent.places;
        let special = special(name).map_err(|reason| Fault::Name { reason })?;
        if self.parent.has_links && (special != Special::None || node.target.is_some() || self.holds(name)) {
            self.parent.is_known = false;
        }
        match (special, lower) {
            (Special::Opaque, Some(place)) => self.lower.remove_below(place),
            (Special::Whiteout(hidden), Some(place)) => self.lower.put(place, hidden, None, false),
            (Special::None, _) => self.put(node, name),
            (_, None) => {}
        }
        Ok(())
    }

    /// True where anything of that name is remembered in the directory that was entered.
    fn holds(&self, name: &[u8]) -> bool {
        let trees = [&self.upper, &self.lower];
        trees.iter().zip(self.parent.places).any(|(tree, place)| place.is_some_and(|place| tree.holds(place, name)))
    }

    fn put(&mut self, node: Node, name: &[u8]) {
        let [upper, lower] = &mut self.parent.places;
        if let Some(place) = *lower {
            self.lower.put(place, name, None, node.is_directory);
        }
        if node.is_remembered() {
            let place = *upper.get_or_insert_with(|| self.upper.make(&self.parent.key));
            let is_directory = node.is_directory;
            self.upper.put(place, name, Some(node), is_directory);
        } else if let Some(place) = *upper {
            self.upper.put(place, name, None, node.is_directory);
        }
    }

    fn node_of(&mut self, member: &Member, name: &[u8]) -> Result<Node, Fault> {
        if member.kind == Kind::HardLink && !is_whiteout(name) {
            return self.linked(member.link);
        }
        if member.kind == Kind::Symlink && member.link.len() > TARGET_BYTES {
            return Err(Fault::Target { reason: "is longer than 4095 bytes, which no system takes" });
        }
        Ok(Node {
            uid: member.uid,
            gid: member.gid,
            is_directory: member.kind == Kind::Directory,
            target: (member.kind == Kind::Symlink).then(|| member.link.into()),
        })
    }

    /// The inode that a hard link shares: what is not remembered is root's.
    fn linked(&mut self, link: &[u8]) -> Result<Node, Fault> {
        let mut key = Vec::new();
        read_key(link, &mut key).map_err(|reason| Fault::Target { reason })?;
        let (parent, name) = split(&key);
        let node = if key.is_empty() {
            self.upper.root_node().or_else(|| self.lower.root_node())
        } else {
            let places = self.resolve(parent)?.places;
            find([&self.upper, &self.lower], places, name)
        };
        let node = node.cloned().unwrap_or(Node { uid: 0, gid: 0, is_directory: false, target: None });
        Ok(Node { is_directory: false, ..node })
    }
}

/// A name up to its last slash, and what follows; slashes at the end do not count.
fn last_component(name: &[u8]) -> (&[u8], &[u8]) {
    let end = name.iter().rposition(|&byte| byte != b'/').map_or(0, |position| position + 1);
    name[..end].split_at(memrchr(b'/', &name[..end]).map_or(0, |position| position + 1))
}

fn is_plain(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && memchr(SEPARATOR, name).is_none()
}
