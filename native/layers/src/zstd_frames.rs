//! zstd (RFC 8878): any number of frames, skippable ones between them; whatever is no frame is an error.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::raw::Raw;
use crate::{Compression, LayersError};

/// What decoders take without being asked for more, and so what writers of layers keep to: 128 MiB.
const WINDOW_LOG_MAX: u32 = 27;

pub(crate) struct Zstd {
    decoder: Decoder<'static>,
    in_frame: bool,
}

impl Zstd {
    pub(crate) fn new(raw: &Raw) -> Result<Self, LayersError> {
        let failed = |error| LayersError::io(raw.path(), error);
        let mut decoder = Decoder::new().map_err(failed)?;
        decoder.set_parameter(zstd::stream::raw::DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(failed)?;
        Ok(Self { decoder, in_frame: false })
    }

    /// Fills `target` unless the end comes first; how much was filled.
    pub(crate) fn fill(&mut self, raw: &mut Raw, target: &mut [u8]) -> Result<usize, LayersError> {
        let mut filled = 0;
        while filled < target.len() {
            let chunk = raw.chunk()?;
            let is_at_end = chunk.is_empty();
            if is_at_end && !self.in_frame {
                break;
            }
            let mut input = InBuffer::around(chunk);
            let mut output = OutBuffer::around(&mut target[filled..]);
            let hint = self.decoder.run(&mut input, &mut output);
            let (taken, given) = (input.pos(), output.pos());
            raw.consume(taken);
            filled += given;
            match hint {
                // Zero says that a frame is complete and all of it was given.
                Ok(hint) => self.in_frame = hint != 0,
                Err(error) => return Err(broken(raw, error.to_string())),
            }
            if is_at_end && given == 0 && self.in_frame {
                return Err(broken(raw, "ends in the middle of a frame".into()));
            }
        }
        Ok(filled)
    }
}

fn broken(raw: &Raw, reason: String) -> LayersError {
    LayersError::Compressed { path: raw.path().into(), format: Compression::Zstd, offset: raw.offset(), reason }
}
