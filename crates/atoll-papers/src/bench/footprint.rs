//! What a load asks for altogether: its keys and their bytes.

use atoll_lab::load::Load;
use rapidhash::RapidHashMap;

/// The keys and bytes that a load asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Different keys.
    pub objects: u64,
    /// Bytes of their keys and values, each as it was asked for last.
    pub bytes: u64,
}

impl Footprint {
    /// That of all requests of a load. A scan counts as its first key.
    pub fn of(load: &dyn Load) -> Self {
        let mut sizes = RapidHashMap::default();
        for request in load.stream(0, 1) {
            sizes.insert(request.key, u64::from(request.key_bytes.max(8)) + u64::from(request.value_bytes));
        }
        Self { objects: sizes.len() as u64, bytes: sizes.values().sum() }
    }

    /// Bytes of an object in the mean.
    pub fn object_bytes(&self) -> u32 {
        (self.bytes / self.objects.max(1)).min(u64::from(u32::MAX)) as u32
    }
}
