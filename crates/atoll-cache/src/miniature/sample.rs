//! Which keys a client's miniatures see, and which part of the pool they model.
//!
//! The sample is a share of 1 / 2^k of all hashes. A client chooses the smallest k with which its
//! miniatures have at most [`Scale::objects`] objects. A least k ([`Scale::shift_min`]) bounds what
//! they cost.

/// A client's own evictions, between two checks of the number of clients.
const WINDOW_EVICTIONS: u64 = 64;
/// The largest k. A key has fifteen bits of its hash that no other choice uses alone.
const SHIFT_MAX: u32 = 15;

/// How large miniatures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The most objects of a miniature of the client's share, unless the share is too large for the
    /// smallest sample.
    pub objects: u64,
    /// At most one key in 2^`shift_min` is in the sample.
    pub shift_min: u32,
}

/// A client's share of the pool, and its sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    scale: Scale,
    /// Objects of the pool.
    objects_max: u64,
    /// Clients that share it, including this client, as far as it knows.
    sharers: u64,
    /// How many clients' parts hold keys of this client: from one to all.
    parts: u64,
    /// This client's evictions since the window began. `first_number` is the number of the first.
    evictions: u64,
    first_number: u64,
}

impl Sample {
    /// The sample of the only client of a pool of `objects_max` objects, as far as it knows.
    pub fn new(scale: Scale, objects_max: u64) -> Self {
        Self { scale, objects_max, sharers: 1, parts: 1, evictions: 0, first_number: 0 }
    }

    /// The objects of the pool that this client's keys compete for, at least one.
    pub fn share_objects(&self) -> u64 {
        (self.objects_max.saturating_mul(self.parts) / self.sharers).max(1)
    }

    /// One key in 2^k is in the sample: the k.
    pub fn shift(&self) -> u32 {
        let fits = |shift: &u32| self.share_objects() >> shift <= self.scale.objects;
        (self.scale.shift_min..SHIFT_MAX).find(fits).unwrap_or(SHIFT_MAX)
    }

    /// Objects of a miniature of the share, at least two.
    pub fn objects(&self) -> u64 {
        (self.share_objects() >> self.shift()).max(2)
    }

    /// Whether a key with this hash is in the sample. The bits choose no bucket of a miniature.
    #[inline]
    pub fn has(&self, hash: u64) -> bool {
        hash >> 32 & ((1 << self.shift()) - 1) == 0
    }

    /// Notes that the pool has room for so many objects. True if the share has changed by an
    /// eighth or more.
    pub fn resized(&mut self, objects_max: u64) -> bool {
        let has_changed = objects_max.abs_diff(self.objects_max) > self.objects_max / 8;
        if has_changed {
            self.objects_max = objects_max;
        }
        has_changed
    }

    /// Notes an eviction of this client, which has that number among all of the pool's. True if
    /// the number of clients has doubled or halved.
    pub fn evicted(&mut self, number: u64) -> bool {
        if self.evictions == 0 {
            self.first_number = number;
        }
        self.evictions += 1;
        if self.evictions <= WINDOW_EVICTIONS {
            return false;
        }
        let sharers = (number.saturating_sub(self.first_number) / WINDOW_EVICTIONS).max(1);
        (self.evictions, self.first_number) = (1, number);
        let has_changed = sharers >= 2 * self.sharers || 2 * sharers <= self.sharers;
        if has_changed {
            self.sharers = sharers;
            self.parts = self.parts.min(sharers);
        }
        has_changed
    }

    /// Models twice the share, at most the whole pool. True if it was less.
    pub fn widen(&mut self) -> bool {
        self.set_parts((2 * self.parts).min(self.sharers))
    }

    /// Models half the share, at least the part of one client. True if it was more.
    pub fn narrow(&mut self) -> bool {
        self.set_parts((self.parts / 2).max(1))
    }

    fn set_parts(&mut self, parts: u64) -> bool {
        std::mem::replace(&mut self.parts, parts) != parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale { objects: 1000, shift_min: 2 };

    #[test]
    fn a_larger_pool_has_a_smaller_sample_until_a_key_has_no_more_bits() {
        for (objects, shift, sampled) in [(1, 2, 2), (4000, 2, 1000), (4004, 3, 500), (1 << 20, 11, 512)] {
            let sample = Sample::new(SCALE, objects);
            assert_eq!((sample.shift(), sample.objects()), (shift, sampled), "{objects}");
        }
        assert_eq!(Sample::new(SCALE, 1 << 40).shift(), SHIFT_MAX);
    }

    #[test]
    fn a_client_learns_from_the_numbers_of_its_evictions_how_many_share_the_pool() {
        let mut sample = Sample::new(SCALE, 32_000);
        let changed: Vec<u64> = (0..300).filter(|eviction| sample.evicted(eviction * 8)).collect();
        assert_eq!((changed, sample.share_objects()), (vec![WINDOW_EVICTIONS], 4000));
        assert!(!sample.resized(33_000) && sample.resized(64_000));
        assert_eq!(sample.share_objects(), 8000);
    }

    #[test]
    fn a_share_is_between_one_part_and_the_whole_pool() {
        let mut sample = Sample::new(SCALE, 32_000);
        assert!(!sample.widen() && !sample.narrow());
        (0..300).for_each(|eviction| drop_changed(sample.evicted(eviction * 6)));
        let widened: Vec<u64> = (0..4).filter(|_| sample.widen()).map(|_| 1).collect();
        assert_eq!((widened.len(), sample.share_objects()), (3, 32_000));
        assert!(sample.narrow());
        assert_eq!(sample.share_objects(), 16_000);
        (300..600).for_each(|eviction| drop_changed(sample.evicted(1500 + eviction)));
        assert_eq!(sample.share_objects(), 32_000, "the only client has the whole pool");
    }

    fn drop_changed(_: bool) {}
}
