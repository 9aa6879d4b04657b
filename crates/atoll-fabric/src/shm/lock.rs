//! Excluding other processes from a region's file while it is made usable.

use super::mapping::{ShmError, path_of};
use std::fs::File;
use std::io;

/// Held until dropped, or until the process ends, however it does.
#[derive(Debug)]
pub struct RegionLock {
    _file: File,
}

impl RegionLock {
    /// Waits until nobody holds the lock of `name` alone.
    pub fn shared(name: &str) -> Result<Self, ShmError> {
        Self::take(name, File::lock_shared)
    }

    /// Waits until nobody else holds the lock of `name`.
    pub fn alone(name: &str) -> Result<Self, ShmError> {
        Self::take(name, File::lock)
    }

    fn take(name: &str, lock: impl Fn(&File) -> io::Result<()>) -> Result<Self, ShmError> {
        let system = |what| move |source| ShmError::System { name: name.to_owned(), what, source };
        let file = File::open(path_of(name)?).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ShmError::Absent(name.to_owned()),
            _ => system("open the file")(error),
        })?;
        lock(&file).map_err(system("lock the file"))?;
        Ok(Self { _file: file })
    }
}
