//! Weights of experts by regret minimisation, and the form in which many clients merge them.
//!
//! A regret at depth t in a history of N evictions multiplies the weight of every expert that was
//! wrong by exp(-lambda d^t). Here d = 0.005^(1/N) (Ditto section 4.3.2; LeCaR section 3.2). Then
//! weights are brought between [`Settings::weight_min`] and its complement, and add up to one.
//!
//! **In the pool** there is one word an expert: the sum of lambda d^t over all its regrets by all
//! clients, in units of [`PENALTY_UNIT`]. Ditto sends the sums to the memory node's controller,
//! which multiplies the weights. Our memory nodes only hold bytes, so clients add the sums by FAA.
//! The result is the same:
//!
//! - The product of the factors exp(-a), exp(-b), ... is exp(-(a + b + ...)), and addition
//!   commutes.
//! - Dividing all weights by their total is a common factor, which the next reader divides out
//!   again.
//! - So w = exp(-sum), brought to a total of one, are the weights in any order of arrival.
//!
//! The bounds are not additive. A reader applies them to the sums that it reads. An expert that was
//! wrong for long must be able to come back as fast as in one client's memory. So sums may not run
//! apart further than the bounds allow. A batch also carries the correction that brings a word back
//! to its bound, if it is too far from the lowest. Two clients may send it at once; the next batch
//! repairs that. Words wrap: only their differences matter.

use super::EXPERTS_MAX;
use crate::policy::Ghost;
use arrayvec::ArrayVec;

/// One unit of the pool's words: 2^-32. Differences up to 2^31 can be told apart, and the bounds
/// keep them under ten.
pub const PENALTY_UNIT: f64 = 1.0 / (1_u64 << 32) as f64;

/// How experts learn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Lambda: how much a regret with no delay lowers the logarithm of a weight. Ditto and LeCaR
    /// differ: 0.1 and 0.45.
    pub learning_rate: f64,
    /// The part of a penalty that is left at the history's end. The discount d is this to the power
    /// of 1 / history.
    pub discount_total: f64,
    /// The least weight; the largest is one less this. Below 1 / number of experts.
    pub weight_min: f64,
    /// The chance of exploring: the weights are ignored, and every distinct candidate is equally
    /// likely.
    pub explore: f64,
    /// Regrets after which a client merges its weights with the pool's.
    pub batch: u32,
    /// Objects in each expert's miniature; zero: weights are learnt from regrets, as in the papers,
    /// and victims are drawn by them.
    pub miniature_objects: u32,
    /// Lambda of a miniature's miss: how much it lowers the logarithm of a weight.
    pub miniature_rate: f64,
    /// How much more a miss of any other expert weighs than a miss of the set's first.
    pub margin: f64,
}

impl Settings {
    /// Regrets as Ditto has them, without miniatures.
    pub fn paper() -> Self {
        Self { miniature_objects: 0, ..Self::default() }
    }
}

impl Default for Settings {
    /// Miniatures. For regrets it has the numbers of Ditto (section 5.1), and the bounds of its
    /// published prototype.
    fn default() -> Self {
        Self {
            learning_rate: 0.1,
            discount_total: 0.005,
            weight_min: 0.01,
            explore: 0.0,
            batch: 100,
            miniature_objects: 1024,
            miniature_rate: 0.005,
            margin: 0.01,
        }
    }
}

/// One client's weights, and penalties that it has not published yet.
#[derive(Clone, Debug)]
pub struct Weights {
    settings: Settings,
    /// Between the bounds, and one in total. A single expert has the weight one.
    weights: ArrayVec<f64, EXPERTS_MAX>,
    /// Penalties since the last batch was taken.
    buffer: ArrayVec<f64, EXPERTS_MAX>,
    /// Regrets since then.
    buffered: u32,
    /// The correction that a batch must add to keep the bounds, as of the last merge: never
    /// positive.
    excess: ArrayVec<f64, EXPERTS_MAX>,
}

impl Weights {
    /// Equal weights of `experts` experts, at least one.
    pub fn new(experts: usize, settings: Settings) -> Self {
        assert!((1..=EXPERTS_MAX).contains(&experts), "{experts} experts");
        assert!((0.0..=1.0 / experts as f64).contains(&settings.weight_min), "a bound that the weights cannot keep");
        let zeros: ArrayVec<f64, EXPERTS_MAX> = std::iter::repeat_n(0.0, experts).collect();
        let weights = std::iter::repeat_n(1.0 / experts as f64, experts).collect();
        Self { settings, weights, buffer: zeros.clone(), buffered: 0, excess: zeros }
    }

    /// The weights.
    pub fn all(&self) -> &[f64] {
        &self.weights
    }

    /// The chance of a candidate that `experts` name, among `candidates` distinct ones.
    pub(super) fn chance(&self, experts: u16, candidates: usize) -> f64 {
        let named = self.weights.iter().enumerate().filter(|(expert, _)| experts >> expert & 1 == 1);
        let explore = self.settings.explore;
        (1.0 - explore) * named.map(|(_, weight)| weight).sum::<f64>() + explore / candidates as f64
    }

    /// Notes a regret. True if a batch is full.
    pub(super) fn regret(&mut self, ghost: Ghost) -> bool {
        let share = f64::from(ghost.depth) / f64::from(ghost.history.max(1));
        let penalty = self.settings.learning_rate * libm::pow(self.settings.discount_total, share);
        self.punish(ghost.experts, |_| penalty)
    }

    /// Notes misses of the miniatures of `experts`. True if a batch is full.
    pub(super) fn missed(&mut self, experts: u16) -> bool {
        let Settings { miniature_rate, margin, .. } = self.settings;
        self.punish(experts, |expert| if expert == 0 { miniature_rate } else { miniature_rate * (1.0 + margin) })
    }

    fn punish(&mut self, experts: u16, penalty: impl Fn(usize) -> f64) -> bool {
        for (expert, weight) in self.weights.iter_mut().enumerate() {
            if experts >> expert & 1 == 1 {
                let penalty = penalty(expert);
                *weight *= libm::exp(-penalty);
                self.buffer[expert] += penalty;
            }
        }
        self.bound();
        self.buffered += 1;
        self.buffered >= self.settings.batch
    }

    /// Takes the batch, in the units of the pool's words.
    pub(super) fn penalties(&mut self) -> ArrayVec<u64, EXPERTS_MAX> {
        self.buffered = 0;
        let sums = self.buffer.iter_mut().zip(&mut self.excess);
        sums.map(|(sum, excess)| ((std::mem::take(sum) + std::mem::take(excess)) / PENALTY_UNIT) as i64 as u64)
            .collect()
    }

    /// Replaces the weights by the pool's words. Penalties that are still in the buffer are added
    /// to them.
    pub(super) fn merged(&mut self, sums: &[u64]) {
        assert_eq!(sums.len(), self.weights.len(), "one word for each expert");
        // Sums relative to the first, in any lap.
        let relative = |sum: u64| sum.wrapping_sub(sums[0]) as i64 as f64 * PENALTY_UNIT;
        let lowest = sums.iter().map(|&sum| relative(sum)).fold(f64::INFINITY, f64::min);
        let apart_max = libm::log((1.0 - self.settings.weight_min) / self.settings.weight_min);
        for (expert, &sum) in sums.iter().enumerate() {
            let above = relative(sum) - lowest;
            self.excess[expert] = (apart_max - above).min(0.0);
            self.weights[expert] = libm::exp(-(above.min(apart_max) + self.buffer[expert]));
        }
        self.bound();
    }

    /// Brings the weights to a total of one and between their bounds.
    fn bound(&mut self) {
        let (min, max) = (self.settings.weight_min, 1.0 - self.settings.weight_min);
        if self.weights.len() == 1 {
            self.weights[0] = 1.0;
            return;
        }
        for _ in 0..2 {
            let total: f64 = self.weights.iter().sum();
            self.weights.iter_mut().for_each(|weight| *weight = (*weight / total).clamp(min, max));
        }
        let total: f64 = self.weights.iter().sum();
        self.weights.iter_mut().for_each(|weight| *weight /= total);
    }
}
