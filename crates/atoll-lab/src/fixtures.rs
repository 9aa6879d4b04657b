//! Where the tests find the shared traces.

use std::path::{Path, PathBuf};

/// The folder of shared traces, beside the checkout; `None`, with the reason printed, where there is none.
pub(crate) fn traces() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: the shared traces are not beside this checkout");
    None
}
