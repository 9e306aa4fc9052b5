//! The files of any tree, such as a build context: path, contents, and whether they may be executed.

use std::path::Path;

use rustix::fs::FileType;

use crate::content::HashedFile;
use crate::file::{status_of_regular, Reader};
use crate::tree::{self, Entries, Root};
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

/// The named files of a directory, each once and in order of the paths' code points.
pub fn named_tree_files(directory: &Path, paths: &[String]) -> Result<Vec<TreeFile>, DigestError> {
    let root = Root::open(directory)?;
    let mut reader = Reader::new();
    let mut paths: Vec<&String> = paths.iter().collect();
    paths.sort_unstable();
    paths.dedup();
    paths.into_iter().map(|path| hash(&root, path, root.open_named(path)?, &mut reader)).collect()
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
