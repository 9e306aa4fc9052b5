//! From the directory that a name gives to the one it is in: symbolic links followed within the image, as a runtime that unpacks does.

use crate::name::{components, push, split, SEPARATOR};
use crate::tree::{Node, Tree};
use crate::Fault;

/// As many links as the kernel follows in one path.
const LINK_LIMIT: usize = 40;

/// A directory and where it is.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) key: Vec<u8>,
    /// Nodes on the way that are no directories: a member below them takes their place.
    pub(crate) in_the_way: Vec<Vec<u8>>,
    /// Symbolic links that were followed.
    pub(crate) links: usize,
}

/// Looks a key up in the layer that is being applied, then in those below it.
pub(crate) fn find<'t>(trees: [&'t Tree; 2], key: &[u8]) -> Option<&'t Node> {
    trees[0].get(key).or_else(|| trees[1].get(key))
}

/// Resolves the directory `key`, of which the first `known` bytes are a directory that is where its key says.
///
/// A link's target is taken from the root where it is absolute; `..` of a target stops at the root. What is missing counts as a directory.
pub(crate) fn resolve(trees: [&Tree; 2], key: &[u8], known: usize, limit_bytes: usize) -> Result<Resolved, Fault> {
    let mut resolved = Resolved { key: key[..known].to_vec(), ..Resolved::default() };
    // Components still to walk, last first.
    let mut pending: Vec<&[u8]> = components_of(&key[known..]).rev().collect();
    while let Some(component) = pending.pop() {
        if component == b".." {
            let parent = split(&resolved.key).0.len();
            resolved.key.truncate(parent);
            continue;
        }
        push(&mut resolved.key, component);
        if resolved.key.len() > limit_bytes {
            return Err(Fault::Name { reason: "gets too long where links are followed" });
        }
        let Some(node) = find(trees, &resolved.key) else { continue };
        if let Some(target) = &node.target {
            resolved.links += 1;
            if resolved.links > LINK_LIMIT {
                return Err(Fault::LinkLoop { limit: LINK_LIMIT });
            }
            let parent = if target.starts_with(b"/") { 0 } else { split(&resolved.key).0.len() };
            resolved.key.truncate(parent);
            pending.extend(components(target).rev());
        } else if !node.is_directory {
            resolved.in_the_way.push(resolved.key.clone());
        }
    }
    Ok(resolved)
}

fn components_of(key: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    key.split(|&byte| byte == SEPARATOR).filter(|component| !component.is_empty())
}
