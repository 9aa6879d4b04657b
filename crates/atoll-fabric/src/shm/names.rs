//! Names of regions, and the files behind them.

use crate::{COMPUTE_NODES_MAX, FabricError};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Regions of one compute node.
pub(super) const REGIONS_MAX: u8 = 64;

/// An exported region's compute node and number.
pub(super) type Place = (u16, u8);

/// The file behind a region's name. `shm:/NAME` is `/dev/shm/atoll.NAME`; a name with a slash is a
/// path. `NAME+N` is memory node N of a pool. `NAME+cN.R` is region R of its compute node N.
pub(super) fn path_of(name: &str) -> Result<PathBuf, FabricError> {
    let bad = || FabricError::BadName(name.to_owned());
    if let Some(short) = name.strip_prefix("shm:") {
        let short = short.strip_prefix('/').unwrap_or(short);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_node = |number: &str| number.parse::<u8>().is_ok() || number.strip_prefix('c').is_some_and(is_place);
        let (name, ending) = short.split_once('+').map_or((short, None), |(name, node)| (name, Some(node)));
        if name.is_empty() || name.len() > 200 || !name.chars().all(plain) || !ending.is_none_or(is_node) {
            return Err(bad());
        }
        Ok(Path::new("/dev/shm").join(format!("atoll.{short}")))
    } else if name.contains('/') {
        Ok(PathBuf::from(name))
    } else {
        Err(bad())
    }
}

/// The name of an exported region, if the home's is `home`.
pub(super) fn export_name(home: &str, (node, region): Place) -> String {
    format!("{home}+c{node}.{region}")
}

/// Whether this is what [`export_name`] has behind `+c`.
pub(super) fn is_place(place: &str) -> bool {
    let is_number = |digits: &str, most: u16| digits.parse::<u16>().is_ok_and(|number| number < most);
    place
        .split_once('.')
        .is_some_and(|(node, region)| is_number(node, COMPUTE_NODES_MAX) && is_number(region, REGIONS_MAX.into()))
}

/// A file's number, and that of its file system.
pub(super) type FileId = (u64, u64);

/// The file that is open.
pub(super) fn id_of(file: &File) -> io::Result<FileId> {
    file.metadata().map(number_of)
}

/// The file that a path names now.
pub(super) fn file_at(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().map(number_of)
}

fn number_of(found: Metadata) -> FileId {
    (found.dev(), found.ino())
}
