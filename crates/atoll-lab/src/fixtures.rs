//! Where the tests find the shared traces.

use std::path::{Path, PathBuf};

/// The folder of shared traces, beside the checkout; `None` where there is none and the environment
/// permits that.
pub(crate) fn traces() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let missing = || format!("the shared traces are not beside this checkout, in {}", folder.display());
    atoll_sim::required("traces", if folder.is_dir() { Ok(folder.clone()) } else { Err(missing()) })
}
