//! A population of objects with a given mean frequency, share of one-hit wonders and skew, by
//! construction.
//!
//! All requests of the load stand in a row of places, each of which belongs to an object:
//!
//! ```text
//! 0             single           single + 2 * repeated                          requests
//! +-------------+----------------+---------------------------------------------------+
//! | one for     | two for each   | the excess: each for a repeated object, by Zipf's |
//! | each single | repeated       | or Mandelbrot's law over these, solved for        |
//! +-------------+----------------+---------------------------------------------------+
//! ```
//!
//! The single objects, and no others, have one request. Requests over objects is the mean
//! frequency. Neither depends on chance. A random bijection of the places puts the requests into
//! the order in which they are made. Finding a place's object takes no memory.
//!
//! The law of the excess gives rank r of the repeated objects the weight 1 / (r + shift)^exponent.
//! Exponent and shift are solved for. The line through ln rank and ln frequency of *all* objects
//! ([`fit`](crate::load::fit)) must get the slope of the table.
//!
//! - Zipf's law (shift 0) with the least exponent that gives the slope is tried first.
//! - Otherwise the shift is doubled until an exponent gives the slope. A shift is needed where the
//!   slope is steeper than the mean frequency allows for a power law over all ranks. It moves
//!   requests from the head to the tail.
//! - Frequencies of objects with few excess requests count as Poisson-distributed.
//! - Where no law gives the slope, the nearest law is used: the mean frequency and the one-hit
//!   wonders win over the skew.

use crate::load::fit::fit;
use crate::zipf::ZipfRanks;
use atoll_deployment::random::{Random, mix};

/// The steepest exponent that is tried.
const EXPONENT_MAX: f64 = 8.0;
/// Between exponents that are tried before the bisection.
const EXPONENT_STEP: f64 = 0.1;
/// Where nothing is known of the skew: Zipf's law as he found it.
const LAW_UNKNOWN: Law = Law { exponent: 1.0, shift: 0.0 };
/// Ranks up to this are taken one by one when frequencies are foreseen, later ones in growing
/// parts.
const RANKS_ALONE: u64 = 128;
/// Objects with a larger mean excess than this are foreseen to have that excess.
const POISSON_MEAN_MAX: f64 = 100.0;

/// The law of the excess.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// How fast weights fall.
    pub exponent: f64,
    /// Added to every rank.
    pub shift: f64,
}

/// What a population shall be like.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Requests of the whole load.
    pub requests: u64,
    /// Requests over objects.
    pub frequency_mean: f64,
    /// The share of the objects that come once.
    pub one_hit_wonders: f64,
    /// The fitted exponent; `None` if any will do, and 0 for an excess that is spread evenly.
    pub alpha: Option<f64>,
}

/// The objects of a load. Repeated ones have the numbers from 0 on, the hottest first; single ones
/// follow.
#[derive(Clone, Debug)]
pub struct Population {
    requests: u64,
    single: u64,
    repeated: u64,
    excess: Option<ZipfRanks>,
    law: Law,
    /// The fitted exponent that is foreseen.
    alpha: Option<f64>,
    seed: u64,
}

impl Population {
    /// The population that comes nearest to what is wanted.
    pub fn new(wanted: &Wanted, seed: u64) -> Self {
        let requests = wanted.requests.max(1);
        let objects = ((requests as f64 / wanted.frequency_mean).round() as u64).clamp(1, requests);
        let mut single = ((objects as f64 * wanted.one_hit_wonders).round() as u64).min(objects);
        if requests - single < 2 * (objects - single) {
            // Too few requests for all others to come twice, which rounding in the table may do.
            single = 2 * objects - requests;
        } else if single == objects && requests > objects {
            single -= 1;
        }
        let repeated = objects - single;
        let excess = requests - single - 2 * repeated;
        let foreseen = |law| foresee(single, repeated, excess, law);
        let law = match wanted.alpha {
            Some(alpha) if excess > 0 && repeated > 1 => solve(alpha, repeated, foreseen),
            _ => LAW_UNKNOWN,
        };
        Self {
            requests,
            single,
            repeated,
            excess: (excess > 0).then(|| ZipfRanks::shifted(repeated, law.exponent, law.shift)),
            law,
            alpha: foreseen(law),
            seed: mix(seed),
        }
    }

    /// Requests of the whole load.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Objects in all.
    pub fn objects(&self) -> u64 {
        self.single + self.repeated
    }

    /// The law of the excess.
    pub fn law(&self) -> Law {
        self.law
    }

    /// The exponent that a fit through all objects will have; `None` for fewer than two objects.
    pub fn alpha(&self) -> Option<f64> {
        self.alpha
    }

    /// The object to which `place` belongs.
    ///
    /// # Panics
    /// If `place` is not below the number of requests.
    pub fn object(&self, place: u64) -> u64 {
        assert!(place < self.requests);
        if place < self.single {
            return self.repeated + place;
        }
        let place = place - self.single;
        match &self.excess {
            Some(ranks) if place >= 2 * self.repeated => ranks.sample(&mut Random::new(mix(self.seed ^ place))) - 1,
            _ => place / 2,
        }
    }
}

/// The law for which `foreseen` gives `alpha`, else the nearest.
fn solve(alpha: f64, repeated: u64, foreseen: impl Fn(Law) -> Option<f64>) -> Law {
    let off = |law| foreseen(law).unwrap_or(0.0) - alpha;
    let mut nearest = Law { exponent: 0.0, shift: 0.0 };
    if alpha <= 0.0 {
        return nearest;
    }
    let mut nearest_off = off(nearest);
    let mut shift = 0.0;
    while shift <= repeated as f64 {
        let (mut low, mut low_off) = (0.0, off(Law { exponent: 0.0, shift }));
        for step in 1..=(EXPONENT_MAX / EXPONENT_STEP) as u32 {
            let high = f64::from(step) * EXPONENT_STEP;
            let high_off = off(Law { exponent: high, shift });
            if low_off.signum() != high_off.signum() {
                return bisect(low, high, shift, off);
            }
            if high_off.abs() < nearest_off.abs() {
                (nearest, nearest_off) = (Law { exponent: high, shift }, high_off);
            }
            (low, low_off) = (high, high_off);
        }
        shift = if shift == 0.0 { 1.0 } else { shift * 2.0 };
    }
    nearest
}

/// The law between the two exponents where `off` changes its sign.
fn bisect(mut low: f64, mut high: f64, shift: f64, off: impl Fn(Law) -> f64) -> Law {
    let sign = off(Law { exponent: low, shift }).signum();
    for _ in 0..20 {
        let middle = low.midpoint(high);
        if off(Law { exponent: middle, shift }).signum() == sign { low = middle } else { high = middle }
    }
    Law { exponent: high, shift }
}

/// The fit through all objects that is to be expected.
fn foresee(single: u64, repeated: u64, excess: u64, law: Law) -> Option<f64> {
    let parts = parts(repeated);
    let weights: Vec<f64> = parts.iter().map(|part| weight(*part, law)).collect();
    let total: f64 = weights.iter().sum();
    let mut groups = vec![(1.0, single as f64)];
    // Counts of objects by their excess, where that is small.
    let mut few = vec![0.0; 2 * POISSON_MEAN_MAX as usize];
    for ((from, to), weight) in parts.iter().zip(&weights) {
        let count = (to - from) as f64;
        let mean = excess as f64 * weight / total / count;
        if mean > POISSON_MEAN_MAX {
            groups.push((2.0 + mean, count));
            continue;
        }
        let mut chance = libm::exp(-mean);
        for (more, objects) in few.iter_mut().enumerate() {
            *objects += count * chance;
            chance *= mean / (more + 1) as f64;
        }
    }
    groups.extend(few.iter().enumerate().map(|(more, count)| ((more + 2) as f64, *count)));
    groups.retain(|(_, count)| *count > 0.0);
    groups.sort_by(|one, other| other.0.total_cmp(&one.0));
    fit(groups).map(|fit| fit.alpha)
}

/// Ranks from 1 in half-open parts.
fn parts(ranks: u64) -> Vec<(u64, u64)> {
    let (mut parts, mut from) = (Vec::new(), 1);
    while from <= ranks {
        let to = (from + if from <= RANKS_ALONE { 1 } else { from / 8 }).min(ranks + 1);
        parts.push((from, to));
        from = to;
    }
    parts
}

/// The sum of the weights of a part: by the midpoint rule where ranks are not alone.
fn weight((from, to): (u64, u64), law: Law) -> f64 {
    // In units of the first rank, so that nothing underflows.
    let at = |rank: f64| (rank + law.shift) / (1.0 + law.shift);
    if to - from == 1 {
        return libm::pow(at(from as f64), -law.exponent);
    }
    let (a, b) = (at(from as f64 - 0.5), at(to as f64 - 0.5));
    let power = 1.0 - law.exponent;
    if power.abs() < 1e-9 {
        return libm::log(b / a) * (1.0 + law.shift);
    }
    (libm::pow(b, power) - libm::pow(a, power)) / power * (1.0 + law.shift)
}
