//! Layers applied to each other, lowest first, as runtimes unpack them.

use memchr::{memchr, memrchr};

use crate::error::shown;
use crate::name::{is_whiteout, read_key, special, split, Special, SEPARATOR};
use crate::resolve::{find, resolve, Places};
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
    /// What the layer that is being applied made: whiteouts act on `lower` alone, wherever they stand in the layer.
    upper: Tree,
    lower: Tree,
    limits: Limits,
    key: Vec<u8>,
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
    places: Places,
}

impl Rootfs {
    pub fn new(limits: &Limits) -> Self {
        let (upper, lower) = (Tree::default(), Tree::default());
        Self { upper, lower, limits: limits.clone(), key: Vec::new(), parent: Parent::default() }
    }

    /// Lays a layer over what is there. After an error the tree is of no use.
    pub fn apply(&mut self, members: &mut Members) -> Result<(), LayersError> {
        let path = members.path().to_owned();
        while let Some(member) = members.next()? {
            if let Err(fault) = self.take(&member) {
                return Err(LayersError::Entry { path, offset: member.offset, entry: shown(member.name), fault });
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

    /// What is not root's, in order of the paths' bytes.
    pub fn into_owners(mut self) -> Vec<Owner> {
        self.lower.overlay(&mut self.upper);
        self.lower.into_owners()
    }

    fn take(&mut self, member: &Member) -> Result<(), Fault> {
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
        let resolved = resolve([&self.upper, &self.lower], parent, self.limits.path_bytes)?;
        self.parent.is_known = resolved.links == 0 && (stays || resolved.in_the_way.is_empty());
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

    /// A member of the directory that was entered.
    fn take_named(&mut self, node: Node, name: &[u8]) -> Result<(), Fault> {
        if self.parent.key.len() + name.len() >= self.limits.path_bytes {
            return Err(Fault::Name { reason: "is too long" });
        }
        let [_, lower] = self.parent.places;
        match (special(name).map_err(|reason| Fault::Name { reason })?, lower) {
            (Special::Opaque, Some(place)) => self.lower.remove_below(place),
            (Special::Whiteout(hidden), Some(place)) => self.lower.put(place, hidden, None, false),
            (Special::None, _) => self.put(node, name),
            (_, None) => {}
        }
        Ok(())
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

    fn node_of(&self, member: &Member, name: &[u8]) -> Result<Node, Fault> {
        if member.kind == Kind::HardLink && !is_whiteout(name) {
            return self.linked(member.link);
        }
        Ok(Node {
            uid: member.uid,
            gid: member.gid,
            is_directory: member.kind == Kind::Directory,
            target: (member.kind == Kind::Symlink).then(|| member.link.into()),
        })
    }

    /// The inode that a hard link shares: what is not remembered is root's.
    fn linked(&self, link: &[u8]) -> Result<Node, Fault> {
        let mut key = Vec::new();
        read_key(link, &mut key).map_err(|reason| Fault::Target { reason })?;
        let (parent, name) = split(&key);
        let trees = [&self.upper, &self.lower];
        let node = if key.is_empty() {
            self.upper.root_node().or_else(|| self.lower.root_node())
        } else {
            find(trees, resolve(trees, parent, self.limits.path_bytes)?.places, name)
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
