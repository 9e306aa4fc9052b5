//! The members of one layer, streamed, and the digests that vouch for them.

use crate::compression::other_format;
use crate::error::shown;
use crate::header::{self, Header};
use crate::layer::check_digest;
use crate::pax::Records;
use crate::pending::{once, padded, until_nul, Found, Pending};
use crate::raw::Raw;
use crate::window::Window;
use crate::{Compression, Fault, Layer, LayersError, Limits, Member};

/// Streams the members of a layer. After [`Members::next`] gave `None` the layer has been read to its end and all that was expected
/// of it holds; until then nothing vouches for the members.
pub struct Members<'a> {
    window: Window<'a>,
    layer: Layer,
    limits: Limits,
    global: Records,
    pending: Pending,
    /// Data of the last member that is still to be passed.
    data_bytes: u64,
    name: Vec<u8>,
    link: Vec<u8>,
    scratch: Vec<u8>,
    offset: u64,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Reading,
    Ended,
    Failed,
}

impl<'a> Members<'a> {
    pub fn open(layer: &Layer, limits: &Limits) -> Result<Self, LayersError> {
        Self::new(Raw::open(layer)?, layer, limits)
    }

    /// Reads bytes in memory; the layer's path names them in errors.
    pub fn of_bytes(layer: &Layer, bytes: &'a [u8], limits: &Limits) -> Result<Self, LayersError> {
        Self::new(Raw::of_bytes(&layer.path, bytes), layer, limits)
    }

    fn new(raw: Raw<'a>, layer: &Layer, limits: &Limits) -> Result<Self, LayersError> {
        // What errors name.
        let layer = Layer { path: raw.path().into(), ..layer.clone() };
        if let Some(expected) = layer.size_bytes.filter(|&size_bytes| size_bytes != raw.size_bytes()) {
            return Err(LayersError::Size { path: layer.path.clone(), got: raw.size_bytes(), expected });
        }
        for digest in [&layer.digest, &layer.diff_id].into_iter().flatten() {
            check_digest(&layer, digest)?;
        }
        let mut window = Window::new(raw, limits.tar_bytes)?;
        let compression = window.compression();
        if let Some(media_type) = &layer.media_type {
            compression.check(&layer.path, media_type)?;
        }
        let is_plain = compression == Compression::None;
        if layer.digest.is_some() || is_plain && layer.diff_id.is_some() {
            window.raw().hash();
        }
        if layer.diff_id.is_some() && !is_plain {
            window.hash();
        }
        Ok(Self {
            window,
            layer,
            limits: limits.clone(),
            global: Records::default(),
            pending: Pending::default(),
            data_bytes: 0,
            name: Vec::new(),
            link: Vec::new(),
            scratch: Vec::new(),
            offset: 0,
            state: State::Reading,
        })
    }

    pub fn path(&self) -> &std::path::Path {
        &self.layer.path
    }

    pub fn compression(&self) -> Compression {
        self.window.compression()
    }

    /// The next member; `None` at the end, when all that was expected of the layer holds.
    #[allow(
        clippy::should_implement_trait,
        reason = "a member borrows from the reader, which an iterator's items cannot"
    )]
    pub fn next(&mut self) -> Result<Option<Member<'_>>, LayersError> {
        match self.state {
            State::Reading => {}
            State::Ended => return Ok(None),
            State::Failed => {
                let (path, what) = (self.layer.path.clone(), "what follows an error".into());
                return Err(LayersError::Unsupported { path, what });
            }
        }
        let found = self.advance().map_err(|error| self.blame(error))?;
        let Some(Found { kind, uid, gid, size_bytes, is_sparse, .. }) = found else {
            self.state = State::Failed;
            self.verify()?;
            self.state = State::Ended;
            return Ok(None);
        };
        let (name, link, offset, data_offset) = (&self.name, &self.link, self.offset, self.window.offset());
        Ok(Some(Member { kind, name, link, uid, gid, size_bytes, is_sparse, offset, data_offset }))
    }

    fn advance(&mut self) -> Result<Option<Found>, LayersError> {
        if let Err(error) = self.window.skip(self.data_bytes, "data") {
            return Err(name_entry(error, &self.name));
        }
        self.data_bytes = 0;
        loop {
            let offset = self.window.offset();
            let block = match self.window.block() {
                Ok(Some(block)) => block,
                Ok(None) => return self.end_of_file(offset).map(|()| None),
                Err(error) => return Err(unless_other_format(offset, &self.window, error)),
            };
            if header::is_zero(block) {
                return self.end_of_archive(offset).map(|()| None);
            }
            if let Err(fault) = header::check(block) {
                let error = LayersError::Tar { path: self.layer.path.clone(), offset, fault };
                return Err(unless_other_format(offset, &self.window, error));
            }
            header::read_name(block, &mut self.name);
            self.link.clear();
            if matches!(block[header::TYPEFLAG], b'1' | b'2') {
                self.link.extend_from_slice(header::link(block));
            }
            let header = Header::new(block);
            self.offset = *self.pending.offset.get_or_insert(offset);
            match self.take_header(&header) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(Problem::Fault(fault)) => return Err(self.entry_error(offset, fault)),
                Err(Problem::Error(error)) => return Err(name_entry(error, &self.name)),
            }
        }
    }

    /// One header: of a member, or of what describes the next one.
    fn take_header(&mut self, header: &Header) -> Result<Option<Found>, Problem> {
        match header.typeflag {
            b'x' | b'X' => {
                self.take_data(header)?;
                let mut records = Records::default();
                records.read(&self.scratch, false)?;
                once(self.pending.records.replace(records), "extended records")?;
            }
            b'g' => {
                self.take_data(header)?;
                self.global.read(&self.scratch, true)?;
                // It describes no member of its own.
                if matches!(self.pending, Pending { records: None, name: None, link: None, .. }) {
                    self.pending.offset = None;
                }
            }
            b'L' => {
                self.take_data(header)?;
                once(self.pending.name.replace(until_nul(&self.scratch)), "name")?;
            }
            b'K' => {
                self.take_data(header)?;
                once(self.pending.link.replace(until_nul(&self.scratch)), "link target")?;
            }
            // A volume's label.
            b'V' => {
                self.window.skip(padded(header.size_bytes()?)?, "data")?;
                self.pending = Pending::default();
            }
            _ => return self.take_member(header).map(Some),
        }
        Ok(None)
    }

    /// Reads the data of an extended header.
    fn take_data(&mut self, header: &Header) -> Result<(), Problem> {
        let (size_bytes, limit) = (header.size_bytes()?, self.limits.record_bytes);
        let count = usize::try_from(size_bytes).ok().filter(|&count| count <= limit);
        let count = count.ok_or(Fault::Above { field: "size", got: size_bytes, limit: limit as u64 })?;
        self.scratch.clear();
        self.window.take(count, &mut self.scratch).map_err(Problem::Error)
    }

    fn take_member(&mut self, header: &Header) -> Result<Found, Problem> {
        let pending = std::mem::take(&mut self.pending);
        let found = pending.describe(header, &self.global, &mut self.name, &mut self.link)?;
        if header.typeflag == b'S' {
            self.pass_sparse_map(header.sparse_goes_on)?;
        }
        self.data_bytes = found.padded_bytes;
        Ok(found)
    }

    fn pass_sparse_map(&mut self, mut goes_on: bool) -> Result<(), Problem> {
        while goes_on {
            let offset = self.window.offset();
            let path = &self.layer.path;
            let cut = || LayersError::Tar {
                path: path.clone(),
                offset,
                fault: Fault::Cut { part: "sparse map", missing: 512 },
            };
            goes_on = header::sparse_block_goes_on(self.window.block()?.ok_or_else(cut)?);
        }
        Ok(())
    }

    /// The bytes ended at a border of blocks: whole only if a digest will say so.
    fn end_of_file(&mut self, offset: u64) -> Result<(), LayersError> {
        let fault = if self.pending.offset.is_some() {
            Fault::Dangling
        } else if self.layer.digest.is_none() && self.layer.diff_id.is_none() {
            Fault::NoEnd
        } else {
            return Ok(());
        };
        let error = LayersError::Tar { path: self.layer.path.clone(), offset, fault };
        Err(unless_other_format(offset, &self.window, error))
    }

    /// One block of zeros was read: another, or the end of the file, must follow, and then zeros alone.
    fn end_of_archive(&mut self, offset: u64) -> Result<(), LayersError> {
        let fail = |offset, fault| Err(LayersError::Tar { path: self.layer.path.clone(), offset, fault });
        if self.pending.offset.is_some() {
            return fail(offset, Fault::Dangling);
        }
        if self.window.block()?.is_some_and(|block| !header::is_zero(block)) {
            return fail(offset, Fault::LoneZeroBlock);
        }
        loop {
            let offset = self.window.offset();
            let rest = self.window.rest()?;
            if rest.is_empty() {
                return Ok(());
            }
            if let Some(position) = rest.iter().position(|&byte| byte != 0) {
                return fail(offset + position as u64, Fault::AfterEnd);
            }
            self.window.drop_rest();
        }
    }

    /// All bytes were read: they must be those that were expected.
    fn verify(&mut self) -> Result<(), LayersError> {
        let stored = self.window.raw().digest()?;
        let tar = self.window.digest().or_else(|| stored.clone());
        for (what, expected, got) in [("digest", &self.layer.digest, stored), ("diff_id", &self.layer.diff_id, tar)] {
            let (Some(expected), Some(got)) = (expected, got) else { continue };
            let got = format!("sha256:{got}");
            if got != *expected {
                return Err(LayersError::Digest {
                    path: self.layer.path.clone(),
                    what,
                    got,
                    expected: expected.clone(),
                });
            }
        }
        Ok(())
    }

    /// Where the bytes are not those of the digest, that is what a person must know of a fault in them.
    fn blame(&mut self, error: LayersError) -> LayersError {
        self.state = State::Failed;
        if !error.is_of_content() || self.layer.digest.is_none() {
            return error;
        }
        self.layer.diff_id = None;
        self.verify().err().unwrap_or(error)
    }

    fn entry_error(&self, offset: u64, fault: Fault) -> LayersError {
        LayersError::Entry { path: self.layer.path.clone(), offset, entry: shown(&self.name), fault }
    }
}

/// A fault that is still to be told where it was found, or an error that knows.
enum Problem {
    Fault(Fault),
    Error(LayersError),
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<LayersError> for Problem {
    fn from(error: LayersError) -> Self {
        Self::Error(error)
    }
}

/// Where the first header is none, the file may be of another format.
fn unless_other_format(offset: u64, window: &Window, error: LayersError) -> LayersError {
    let path = window.path();
    match (other_format(window.magic()), error) {
        (Some(what), error) if offset == 0 && error.is_of_content() => {
            LayersError::Unsupported { path: path.into(), what: what.into() }
        }
        (None, LayersError::Tar { fault: Fault::Checksum { .. } | Fault::Number { .. }, .. }) if offset == 0 => {
            LayersError::Tar { path: path.into(), offset, fault: Fault::NoTar }
        }
        (_, error) => error,
    }
}

fn name_entry(error: LayersError, name: &[u8]) -> LayersError {
    match error {
        LayersError::Tar { path, offset, fault } => LayersError::Entry { path, offset, entry: shown(name), fault },
        error => error,
    }
}
