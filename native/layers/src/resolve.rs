//! From the directory that a name gives to the one it is in: symbolic links followed within the image, as a runtime that unpacks does.

use crate::name::{components, components_of, push, split};
use crate::tree::{Directory, Node, Tree};
use crate::Fault;

/// As many links as the kernel follows in one path.
const LINK_LIMIT: usize = 40;

/// A directory in the tree of the layer that is being applied, and in that of the layers below: where anything is remembered there.
pub(crate) type Places = [Option<Directory>; 2];

/// A directory and where it is.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) key: Vec<u8>,
    pub(crate) places: Places,
    /// Names above it that are no directories, with the directories they are in: a member below them takes their place.
    pub(crate) in_the_way: Vec<(Places, Vec<u8>)>,
    /// Symbolic links that were followed.
    pub(crate) links: usize,
    /// Names that their targets have.
    pub(crate) link_names: u64,
}

/// The node of a name, which the upper tree says where it does.
pub(crate) fn find<'t>(trees: [&'t Tree; 2], places: Places, name: &[u8]) -> Option<&'t Node> {
    let found = |index: usize| trees[index].get(places[index]?, name);
    found(0).or_else(|| found(1))
}

/// Resolves the directory `key`, all of it.
///
/// Of the targets of links, up to `link_names` names are read. A link's target is taken from the root where it is absolute; `..` of a target stops at the root. What is missing counts as a directory.
pub(crate) fn resolve(trees: [&Tree; 2], key: &[u8], limit_bytes: usize, link_names: u64) -> Result<Resolved, Fault> {
    let roots = trees.map(|tree| Some(tree.root()));
    let mut resolved = Resolved { key: Vec::new(), places: roots, in_the_way: Vec::new(), links: 0, link_names: 0 };
    // The directories above, each with how much is in the way there, for `..`; components still to walk, last first.
    let mut above: Vec<(Places, usize)> = Vec::new();
    let mut pending: Vec<&[u8]> = components_of(key).rev().collect();
    while let Some(component) = pending.pop() {
        if component == b".." {
            resolved.key.truncate(split(&resolved.key).0.len());
            let (places, in_the_way) = above.pop().unwrap_or((roots, 0));
            resolved.places = places;
            resolved.in_the_way.truncate(in_the_way);
            continue;
        }
        let node = find(trees, resolved.places, component);
        if let Some(target) = node.and_then(|node| node.target.as_ref()) {
            resolved.links += 1;
            if resolved.links > LINK_LIMIT {
                return Err(Fault::LinkLoop { limit: LINK_LIMIT });
            }
            if target.starts_with(b"/") {
                resolved.key.clear();
                resolved.places = roots;
                resolved.in_the_way.clear();
                above.clear();
            }
            let before = pending.len();
            pending.extend(components(target).rev());
            resolved.link_names += (pending.len() - before) as u64;
            if resolved.link_names > link_names {
                return Err(Fault::LinkNames);
            }
            continue;
        }
        above.push((resolved.places, resolved.in_the_way.len()));
        if node.is_some_and(|node| !node.is_directory) {
            resolved.in_the_way.push((resolved.places, component.to_vec()));
        }
        push(&mut resolved.key, component);
        if resolved.key.len() > limit_bytes {
            return Err(Fault::Name { reason: "gets too long where links are followed" });
        }
        let below = |index: usize| trees[index].below(resolved.places[index]?, component);
        resolved.places = [below(0), below(1)];
    }
    Ok(resolved)
}
