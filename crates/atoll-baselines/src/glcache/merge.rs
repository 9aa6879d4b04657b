//! Which objects of merged groups stay.

/// A live object of a group that is merged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    /// Accesses since it was written.
    pub(super) frequency: u16,
    /// Bytes of the pool that it occupies.
    pub(super) bytes: u64,
    /// The bytes in the group: its record and its entry in the map.
    pub(super) room_bytes: u64,
    /// Age of its group, at least 1.
    pub(super) age: u32,
}

impl Candidate {
    /// The value of keeping it.
    fn score(&self) -> f64 {
        f64::from(self.frequency) / (self.bytes.max(1) as f64 * f64::from(self.age.max(1)))
    }
}

/// Which of the candidates, by their places, stay in a group of at most so many objects and bytes.
/// The highest scores stay, in no particular order. A candidate without an access is evicted.
pub(super) fn keep_best(candidates: &[Candidate], objects_max: usize, bytes_max: u64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..candidates.len()).filter(|place| candidates[*place].frequency > 0).collect();
    places.sort_by(|a, b| candidates[*b].score().total_cmp(&candidates[*a].score()));
    let mut bytes_left = bytes_max;
    places.retain(|place| {
        let bytes = candidates[*place].room_bytes;
        let fits = bytes <= bytes_left;
        bytes_left -= if fits { bytes } else { 0 };
        fits
    });
    places.truncate(objects_max);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_stay_and_all_of_them_fit_into_one_group() {
        let object = |frequency, bytes, age| Candidate { frequency, bytes, room_bytes: bytes, age };
        let candidates = [object(0, 10, 1), object(4, 100, 1), object(4, 100, 2), object(1, 10, 1), object(9, 1000, 1)];
        assert_eq!(keep_best(&candidates, 2, 1 << 20), [3, 1]);
        assert_eq!(keep_best(&candidates, 9, 1 << 20), [3, 1, 2, 4]);
        assert_eq!(keep_best(&candidates, 9, 250), [3, 1, 2]);
        assert!(keep_best(&candidates, 0, 250).is_empty() && keep_best(&[], 9, 250).is_empty());
    }
}
