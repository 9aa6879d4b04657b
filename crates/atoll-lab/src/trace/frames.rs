//! The content of zstd frames, one after the other.

use ruzstd::decoding::errors::{FrameDecoderError, FrameHeaderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{BufRead, Error, ErrorKind, Read};

/// The largest window that a frame may ask for: what the published traces are compressed with.
const WINDOW_BYTES_MAX: u64 = 1 << 27;
/// What every frame begins with.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reads what the frames of `source` hold. Frames that are there to be skipped are skipped; a
/// checksum that does not fit is an error.
pub(super) struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        Self { source, decoder, within: false }
    }

    /// Begins the next frame; `false` at the end of the file.
    fn begin(&mut self) -> std::io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            use FrameDecoderError::ReadFrameHeaderError as Unread;
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(Unread(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = std::io::copy(&mut (&mut self.source).take(length.into()), &mut std::io::sink())?;
                    if skipped < length.into() {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(
                    FrameDecoderError::WindowSizeTooBig { .. }
                    | FrameDecoderError::FrameHeaderError(FrameHeaderError::WindowTooBig { .. }),
                ) => {
                    return Err(Error::other(
                        "a frame asks for a window above 128 MiB: compress it with a smaller --long",
                    ));
                }
                Err(error) => return Err(Error::other(error)),
            }
        }
        Ok(false)
    }

    /// Ends a frame whose content has been read.
    fn end(&mut self) -> std::io::Result<()> {
        self.within = false;
        let (stored, calculated) = (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
        match stored.is_none() || stored == calculated {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidData, "a frame's checksum does not fit its content")),
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if !self.within {
                self.within = self.begin()?;
                if !self.within {
                    return Ok(0);
                }
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(into);
            }
            if self.decoder.is_finished() {
                self.end()?;
            } else {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(Error::other)?;
            }
        }
    }
}
