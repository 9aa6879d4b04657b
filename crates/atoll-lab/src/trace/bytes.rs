//! The decompressed bytes of a trace file.

use super::TraceError;
use super::frames::{self, Frames};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes of the file that have been read, for progress.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.file.read(into)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// The bytes of a trace, decompressed if they are compressed.
pub(super) struct Bytes {
    path: PathBuf,
    reader: Box<dyn BufRead + Send>,
    file_bytes: u64,
    file_bytes_read: Arc<AtomicU64>,
}

impl Bytes {
    pub(super) fn open(path: &Path) -> Result<Self, TraceError> {
        let failed = |source| TraceError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(std::io::ErrorKind::IsADirectory.into()));
        }
        let read = Arc::new(AtomicU64::new(0));
        let mut raw = BufReader::with_capacity(1 << 17, Counted { file, read: read.clone() });
        let reader: Box<dyn BufRead + Send> = if raw.fill_buf().map_err(failed)?.starts_with(&frames::MAGIC) {
            Box::new(BufReader::with_capacity(1 << 17, Frames::new(raw)))
        } else {
            Box::new(raw)
        };
        Ok(Self { path: path.to_owned(), reader, file_bytes: metadata.len(), file_bytes_read: read })
    }

    /// The first bytes, which stay to be read.
    pub(super) fn peek(&mut self) -> Result<&[u8], TraceError> {
        let path = &self.path;
        self.reader.fill_buf().map_err(|source| TraceError::Read {
            path: path.clone(),
            whole: 0,
            unit: "record",
            source,
        })
    }

    /// The bytes as a stream.
    #[inline]
    pub(super) fn reader(&mut self) -> &mut dyn BufRead {
        &mut *self.reader
    }

    /// Bytes of the file read so far, and its size.
    pub(super) fn position(&self) -> (u64, u64) {
        (self.file_bytes_read.load(Ordering::Relaxed), self.file_bytes)
    }

    #[cold]
    pub(super) fn unreadable(&self, unit: &'static str, whole: u64, source: std::io::Error) -> TraceError {
        TraceError::Read { path: self.path.clone(), whole, unit, source }
    }

    #[cold]
    pub(super) fn malformed(&self, unit: &'static str, number: u64, what: impl Into<String>) -> TraceError {
        TraceError::Malformed { path: self.path.clone(), unit, number, what: what.into() }
    }
}
