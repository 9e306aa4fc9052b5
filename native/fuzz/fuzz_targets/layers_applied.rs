//! Layers of a few names applied to each other: the same owners as a model that keeps every node of the tree.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use platoon_layers::{Layer, Limits, Members, OwnerManifest, Rootfs};

const NAMES: [&str; 5] = ["a", "b", "ab", ".c", "\u{e9}"];
const HIDDEN: [&str; 5] = [".wh.a", ".wh.b", ".wh..c", ".wh..wh..opq", ".wh."];
const LAYERS: usize = 4;

fuzz_target!(|data: &[u8]| {
    let layers = written(data);
    let mut rootfs = Rootfs::new(&Limits::default());
    let mut model = Node::directory(0);
    for (number, layer) in layers.iter().enumerate() {
        let tar: Vec<u8> = layer.iter().flat_map(header).chain([0; 1024]).collect();
        let file = Layer::file("fuzzed");
        let mut members = Members::of_bytes(&file, &tar, &Limits::default()).expect("opens");
        let applied = rootfs.apply(&mut members);
        let modelled = layer.iter().try_for_each(|member| take(&mut model, member, number + 1));
        assert_eq!(applied.is_ok(), modelled.is_some(), "{layer:?}");
        if applied.is_err() {
            return;
        }
    }
    let mut owners = Vec::new();
    listed(&model, String::new(), &mut owners);
    owners.sort_unstable();
    let mut expected = OwnerManifest::default();
    owners.iter().for_each(|(path, uid, gid)| expected.push(path, *uid, *gid));
    let got = rootfs.into_manifest().expect("is small");
    assert_eq!(String::from_utf8_lossy(&got.bytes), String::from_utf8_lossy(&expected.bytes), "{layers:?}");
});

#[derive(Debug)]
struct Written {
    name: String,
    typeflag: u8,
    id: u8,
    link: String,
}

/// Reads bytes as members: what one is, whose, where, and where it leads.
fn written(data: &[u8]) -> Vec<Vec<Written>> {
    let mut layers = vec![Vec::new()];
    let mut bytes = data.iter().copied();
    while let Some(first) = bytes.next() {
        let mut next = || bytes.next().unwrap_or_default();
        let mut path = |parts: &[&str]| {
            let count = usize::from(next() % 3) + 1;
            (0..count).map(|_| parts[usize::from(next()) % parts.len()]).collect::<Vec<_>>().join("/")
        };
        let (name, link) = match first % 8 {
            0 if layers.len() < LAYERS => {
                layers.push(Vec::new());
                continue;
            }
            1 | 2 => (path(&NAMES), String::new()),
            3 => (path(&NAMES), path(&["a", "b", "..", "", ".c"])),
            4 => (path(&NAMES), path(&NAMES)),
            5 => (path(&NAMES) + "/" + path(&HIDDEN).split('/').next_back().unwrap_or_default(), String::new()),
            6 => (path(&HIDDEN), String::new()),
            _ => (path(&["a", "b", "", ".", ".wh..wh.plnk"]), String::new()),
        };
        let typeflag = [b'0', b'0', b'5', b'2', b'1', b'0', b'0', b'5'][usize::from(first % 8)];
        // A file whose name ends in a slash is a directory.
        let typeflag = if typeflag == b'0' && name.ends_with('/') { b'5' } else { typeflag };
        let link = if typeflag == b'2' && link.is_empty() { "/".into() } else { link };
        if !name.is_empty() {
            layers.last_mut().expect("begins with one").push(Written { name, typeflag, id: first / 8 % 4, link });
        }
    }
    layers
}

fn header(member: &Written) -> [u8; 512] {
    let mut block = [0; 512];
    let mut set = |offset: usize, bytes: &[u8]| block[offset..offset + bytes.len()].copy_from_slice(bytes);
    set(0, member.name.as_bytes());
    set(108, format!("{:07o}\0", member.id).as_bytes());
    set(116, format!("{:07o}\0", member.id / 2).as_bytes());
    set(156, &[member.typeflag]);
    set(157, member.link.as_bytes());
    set(257, b"ustar\x0000");
    set(148, b"        ");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// Every node of the image, with the layer that made it.
#[derive(Debug, Clone)]
struct Node {
    id: u8,
    layer: usize,
    is_directory: bool,
    target: Option<String>,
    children: BTreeMap<String, Node>,
}

impl Node {
    fn directory(layer: usize) -> Self {
        Self { id: 0, layer, is_directory: true, target: None, children: BTreeMap::new() }
    }
}

/// `None` for what is refused.
fn take(root: &mut Node, member: &Written, layer: usize) -> Option<()> {
    let Some((name, parent)) = parts(&member.name)?.split_last().map(|(name, parent)| (name.clone(), parent.to_vec()))
    else {
        root.id = member.id;
        return (member.typeflag == b'5').then_some(());
    };
    let is_opaque = name == ".wh..wh..opq";
    if let Some(hidden) = name.strip_prefix(".wh.").filter(|_| is_opaque || !name.starts_with(".wh..wh.")) {
        if matches!(hidden, "" | "." | "..") {
            return None;
        }
        let place = resolve(root, &parent)?;
        if let Some(directory) = find_mut(root, &place) {
            let names = if is_opaque { directory.children.keys().cloned().collect() } else { vec![hidden.to_owned()] };
            names.iter().for_each(|name| hide(directory, name, layer));
        }
        return Some(());
    }
    let mut made =
        Node { id: member.id, layer, is_directory: member.typeflag == b'5', target: None, children: BTreeMap::new() };
    match member.typeflag {
        b'1' => {
            let link = parts(&member.link)?;
            let shared = match link.split_last() {
                Some((name, parent)) => {
                    let mut place = resolve(root, parent)?;
                    place.push(name.clone());
                    find_mut(root, &place).cloned()
                }
                None => Some(root.clone()),
            };
            (made.id, made.target) = shared.map_or((0, None), |shared| (shared.id, shared.target));
        }
        b'2' => made.target = Some(member.link.clone()),
        _ => {}
    }
    let mut directory = &mut *root;
    for part in resolve(directory, &parent)? {
        let child = directory.children.entry(part).or_insert_with(|| Node::directory(layer));
        if !child.is_directory {
            *child = Node::directory(layer);
        }
        directory = child;
    }
    if let Some(old) = directory.children.remove(&name).filter(|old| old.is_directory && made.is_directory) {
        made.children = old.children;
    }
    directory.children.insert(name, made);
    Some(())
}

fn parts(name: &str) -> Option<Vec<String>> {
    let parts: Vec<String> = pieces(name).collect();
    (!parts.iter().any(|part| part == "..")).then_some(parts)
}

fn pieces(name: &str) -> impl DoubleEndedIterator<Item = String> + '_ {
    name.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned)
}

fn resolve(root: &mut Node, path: &[String]) -> Option<Vec<String>> {
    let mut pending: Vec<String> = path.iter().rev().cloned().collect();
    let mut done: Vec<String> = Vec::new();
    let mut links = 0;
    while let Some(part) = pending.pop() {
        if part == ".." {
            done.pop();
            continue;
        }
        done.push(part);
        let Some(target) = find_mut(root, &done).and_then(|node| node.target.clone()) else { continue };
        links += 1;
        if links > 40 {
            return None;
        }
        done.pop();
        if target.starts_with('/') {
            done.clear();
        }
        pending.extend(pieces(&target).rev());
    }
    Some(done)
}

fn find_mut<'n>(root: &'n mut Node, path: &[String]) -> Option<&'n mut Node> {
    path.iter().try_fold(root, |node, part| node.children.get_mut(part))
}

/// What the layer itself put below a name stays, in directories of root's.
fn hide(directory: &mut Node, name: &str, layer: usize) {
    let Some(node) = directory.children.get_mut(name) else { return };
    let names: Vec<String> = node.children.keys().cloned().collect();
    names.iter().for_each(|below| hide(node, below, layer));
    if node.layer < layer && node.children.is_empty() {
        directory.children.remove(name);
    } else if node.layer < layer {
        (node.id, node.layer) = (0, layer);
    }
}

fn listed(node: &Node, path: String, owners: &mut Vec<(Vec<u8>, u32, u32)>) {
    let spelled = if path.is_empty() { b"/".to_vec() } else { path.clone().into_bytes() };
    owners.push((spelled, node.id.into(), (node.id / 2).into()));
    for (name, child) in node.children.iter().filter(|(name, _)| !name.starts_with(".wh..wh.")) {
        listed(child, format!("{path}/{name}"), owners);
    }
}
