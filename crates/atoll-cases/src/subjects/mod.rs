//! The engines under test, one file each; the engines on the table share one.

/// Opens a hole in an engine, if the case has one. Only the feature `holes` compiles any in.
macro_rules! open_hole {
    ($of:expr, $hole:expr) => {{
        #[cfg(feature = "holes")]
        if let Some(hole) = $hole {
            $of.open_hole(hole);
        }
        #[cfg(not(feature = "holes"))]
        let _ = (&$of, $hole);
    }};
}

mod cliquemap;
mod forge;
mod glcache;
mod marked;
mod near;
mod table;

pub use cliquemap::CliqueMapSubject;
pub use forge::{AblatedSubject, ForgeSubject};
pub use glcache::GlCacheSubject;
pub use marked::{Marked, MarkedSubject};
pub use near::{CopiedSubject, NearSubject};
pub use table::{DittoSubject, KvsSubject, QueuesSubject};
