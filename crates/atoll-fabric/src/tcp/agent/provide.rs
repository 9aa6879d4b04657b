//! Providing the memory of a region while clients already use it.
//!
//! A memory node that comes back is made anew while all clients wait. The pages of a large one take
//! seconds. So the agent provides them by itself. What a verb touches earlier is provided first.

use crate::Region;
use crate::shm::ShmRegion;
use std::sync::Weak;
use std::time::Duration;

/// Bytes that are provided at a time.
const STRETCH_BYTES: u64 = 16 << 20;
/// Pause before the next try on a host without free memory.
const RETRY_PERIOD: Duration = Duration::from_millis(500);

/// Begins to provide all memory of a region. It ends with the region.
pub(super) fn begin(region: Weak<ShmRegion>) {
    // Without a thread each verb provides what it touches.
    let _ = std::thread::Builder::new().name("atoll-provide".to_owned()).spawn(move || provide(&region));
}

fn provide(region: &Weak<ShmRegion>) {
    let mut start = 0;
    // Between two stretches the thread does not keep the region.
    while let Some(region) = region.upgrade() {
        if start >= region.attributes().bytes {
            return;
        }
        let is_there = region.reserve(start, STRETCH_BYTES);
        drop(region);
        match is_there {
            true => start += STRETCH_BYTES,
            false => std::thread::sleep(RETRY_PERIOD),
        }
    }
}
