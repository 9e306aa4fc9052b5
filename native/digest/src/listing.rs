//! The files of any tree, such as a build context: path, contents, and whether they may be executed; or the names alone.

use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::content::HashedFile;
use crate::file::{status_of_regular, Reader};
use crate::queue::in_order;
use crate::tree::{self, Entries, Followed, Root};
use crate::walk::{walk, Found, Place, Visit};
use crate::DigestError;

/// A file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    pub file: HashedFile,
    /// Whether any of its execute bits is set.
    pub is_executable: bool,
}

/// Every file of a directory, on up to `threads` threads, in order of the paths' code points.
///
/// A link to a file of the tree counts as that file; one that leads out of it is an error. Links to directories, and what is neither
/// file nor directory, do not count.
pub fn tree_files(directory: &Path, threads: usize) -> Result<Vec<TreeFile>, DigestError> {
    let root = Root::open(directory)?;
    let mut entries = Entries::default();
    entries.read(root.as_fd()).map_err(|error| DigestError::io(directory, error))?;
    let kept = walk(&root, entries, threads, &ListingVisit { root: &root })?;
    let mut files = Vec::with_capacity(kept.len());
    files.extend(kept.iter().map(|(_, file)| file.clone()));
    Ok(files)
}

/// The named files of a directory, each once and in order of the paths' code points, on up to `threads` threads. Of several errors the
/// one whose path comes first is given.
pub fn named_tree_files(directory: &Path, paths: &[String], threads: usize) -> Result<Vec<TreeFile>, DigestError> {
    let root = Root::open(directory)?;
    let mut paths: Vec<&String> = paths.iter().collect();
    paths.sort_unstable();
    paths.dedup();
    let read = |path: &&String, reader: &mut Reader| hash(&root, path, root.open_named(path)?, reader);
    let files = in_order(&paths, threads, Reader::new, read);
    files.map_err(|error| DigestError::io(directory, error))?.into_iter().collect()
}

/// Where a name of a tree leads, links followed within the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leads {
    ToFile,
    /// A link alone leads to one: directories are listed.
    ToDirectory,
    /// A link whose target is absolute or climbs out of the tree.
    Outside,
    Nowhere,
}

/// Every file and link below `below`, a directory of the tree `directory`, by its path from there and in order of the paths' code points.
pub fn tree_names(directory: &Path, below: &Path, threads: usize) -> Result<Vec<(String, Leads)>, DigestError> {
    let root = Root::open(directory)?;
    let shown: PathBuf = root.name(below).components().collect();
    let Followed::Directory(listed) = root.follow(below)? else {
        return Err(DigestError::io(shown, Errno::NOTDIR));
    };
    let listed = Root::of(listed, &shown);
    let mut entries = Entries::default();
    entries.read(listed.as_fd()).map_err(|error| DigestError::io(shown, error))?;
    let kept = walk(&listed, entries, threads, &NamesVisit { root: &root, below })?;
    Ok(kept.iter().map(|(path, leads)| (path.to_owned(), *leads)).collect())
}

struct NamesVisit<'a> {
    root: &'a Root,
    below: &'a Path,
}

impl Visit for NamesVisit<'_> {
    type Item = Leads;
    type Worker = ();

    fn worker(&self) {}

    fn visit(&self, place: &Place<'_>, _: &mut (), found: &mut Found<Leads>) -> Result<(), DigestError> {
        let leads = match place.kind {
            FileType::Symlink => match self.root.follow(&self.below.join(place.path))? {
                Followed::File(_) => Leads::ToFile,
                Followed::Directory(_) => Leads::ToDirectory,
                Followed::Outside(_) => Leads::Outside,
                Followed::Nowhere => Leads::Nowhere,
            },
            _ => Leads::ToFile,
        };
        found.push(place.path, leads);
        Ok(())
    }

    fn finish(&self, _: &mut (), _: &mut Found<Leads>) {}
}

struct ListingVisit<'a> {
    root: &'a Root,
}

impl Visit for ListingVisit<'_> {
    type Item = TreeFile;
    type Worker = Reader;

    fn worker(&self) -> Reader {
        Reader::new()
    }

    fn visit(&self, place: &Place<'_>, reader: &mut Reader, found: &mut Found<TreeFile>) -> Result<(), DigestError> {
        let file = match place.kind {
            FileType::Symlink => self.root.open_file(place.path.as_ref())?,
            _ => Some(
                tree::open_regular(place.parent, place.name)
                    .map_err(|error| DigestError::io(self.root.name(place.path), error))?,
            ),
        };
        if let Some(file) = file {
            found.push(place.path, hash(self.root, place.path, file, reader)?);
        }
        Ok(())
    }

    fn finish(&self, _: &mut Reader, _: &mut Found<TreeFile>) {}
}

fn hash(root: &Root, path: &str, file: std::fs::File, reader: &mut Reader) -> Result<TreeFile, DigestError> {
    let status = status_of_regular(&file, || root.name(path))?;
    let (sha256, size_bytes) =
        reader.hash(file, status.size_bytes).map_err(|error| DigestError::io(root.name(path), error))?;
    let file = HashedFile { path: path.to_owned(), sha256, size_bytes };
    Ok(TreeFile { file, is_executable: status.mode & 0o111 != 0 })
}
