//! A generated load: GETs whose keys follow Zipf's law, `zipf:KEYS,THETA,REQUESTS`.
//!
//! The key of rank r (1 is the hottest) has a probability proportional to 1 / r^THETA. Ranks are
//! drawn exactly, in constant time and memory for any THETA. The method is the rejection-inversion
//! of Hörmann and Derflinger ("Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6(3), 1996). A bijection scatters the ranks over the space of keys.
//! No two ranks share a key, and neighbours in rank are not neighbours in the index.
//!
//! The same seed gives the same load on every machine. Logarithms and exponentials therefore come
//! from `libm`, which is the same code everywhere, and not from the platform. `rand_distr` has the
//! same algorithm, but its mathematics depends on what else is built with it.

use crate::trace::request::{Operation, Request};
use atoll_deployment::random::{Random, mix};

/// Length of the values of a generated load where sizes count.
pub const VALUE_BYTES: u64 = 256;
/// Generated time runs at this pace, as the nominal clock of the published traces does.
pub const REQUESTS_PER_S: u64 = 1000;

/// Why a generated load cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("zipf:{spec} is no load: {what}; write zipf:KEYS,THETA,REQUESTS, for example zipf:100000,0.99,1000000")]
pub struct ZipfError {
    spec: String,
    what: &'static str,
}

/// Draws ranks 1 ..= `ranks`.
#[derive(Clone, Debug)]
pub struct ZipfRanks {
    ranks: u64,
    theta: f64,
    /// Added to every rank before its weight is taken; 0 for Zipf's law, more for Mandelbrot's,
    /// whose head is flatter.
    shift: f64,
    /// One more than the shift. Ranks are measured in it, so that the first has density 1 and no
    /// digits are lost in the head.
    scale: f64,
    /// The integral of the density from rank 1 on, shifted so that the first rank's share of it is
    /// exactly its weight.
    integral_first: f64,
    /// The integral up to half a rank beyond the last.
    integral_last: f64,
    /// Distances below this need no comparison of integrals.
    squeeze: f64,
}

impl ZipfRanks {
    /// Ranks up to `ranks` (1 to 2^52) with exponent `theta` (0 or more; 0 is uniform).
    ///
    /// # Panics
    /// If a parameter is out of range.
    pub fn new(ranks: u64, theta: f64) -> Self {
        Self::shifted(ranks, theta, 0.0)
    }

    /// Mandelbrot's law: rank r has a probability proportional to 1 / (r + `shift`)^theta.
    ///
    /// # Panics
    /// If a parameter is out of range; `shift` is 0 to 2^52.
    pub fn shifted(ranks: u64, theta: f64, shift: f64) -> Self {
        assert!((1..=1 << 52).contains(&ranks) && (0.0..=100.0).contains(&theta));
        assert!((0.0..=(1_u64 << 52) as f64).contains(&shift));
        let mut zipf =
            Self { ranks, theta, shift, scale: 1.0 + shift, integral_first: 0.0, integral_last: 0.0, squeeze: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - zipf.density(1.0);
        zipf.integral_last = zipf.integral(ranks as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    #[inline]
    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log((x + self.shift) / self.scale))
    }

    /// (x^(1-theta) - 1) / (1-theta) of x shifted and scaled, and its logarithm in the limit.
    #[inline]
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log((x + self.shift) / self.scale);
        expm1_ratio((1.0 - self.theta) * log) * log * self.scale
    }

    #[inline]
    fn integral_inverse(&self, y: f64) -> f64 {
        // Rounding may carry the argument out of the domain of ln_1p by an ulp.
        let y = y / self.scale;
        let t = (y * (1.0 - self.theta)).max(-1.0);
        libm::exp(ln1p_ratio(t) * y) * self.scale - self.shift
    }

    /// A rank, the hottest being 1.
    #[inline]
    pub fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.integral_last + random.unit() * (self.integral_first - self.integral_last);
            let x = self.integral_inverse(u);
            let rank = ((x + 0.5) as u64).clamp(1, self.ranks);
            let k = rank as f64;
            if k - x <= self.squeeze || u >= self.integral(k + 0.5) - self.density(k) {
                return rank;
            }
        }
    }
}

/// (e^t - 1) / t, by its series where the quotient loses its digits.
#[inline]
fn expm1_ratio(t: f64) -> f64 {
    if t.abs() > 1e-8 { libm::expm1(t) / t } else { 1.0 + t * 0.5 * (1.0 + t / 3.0) }
}

/// ln(1 + t) / t, by its series where the quotient loses its digits.
#[inline]
fn ln1p_ratio(t: f64) -> f64 {
    if t.abs() > 1e-8 { libm::log1p(t) / t } else { 1.0 - t * (0.5 - t / 3.0) }
}

/// The load, as a source of requests.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: ZipfRanks,
    random: Random,
    requests: u64,
    made: u64,
}

impl Zipf {
    /// The load that `KEYS,THETA,REQUESTS` describes.
    pub fn parse(spec: &str, seed: u64) -> Result<Self, ZipfError> {
        let wrong = |what| ZipfError { spec: spec.to_owned(), what };
        let fields: Vec<&str> = spec.split(',').map(str::trim).collect();
        let [keys, theta, requests] = fields[..] else { return Err(wrong("it has not three parts")) };
        let keys: u64 = keys.parse().map_err(|_| wrong("KEYS is no whole number"))?;
        let theta: f64 = theta.parse().map_err(|_| wrong("THETA is no number"))?;
        let requests: u64 = requests.parse().map_err(|_| wrong("REQUESTS is no whole number"))?;
        if !(1..=1 << 52).contains(&keys) {
            return Err(wrong("KEYS is not between 1 and 2^52"));
        }
        if !(0.0..=100.0).contains(&theta) {
            return Err(wrong("THETA is not between 0 and 100"));
        }
        if requests == 0 {
            return Err(wrong("REQUESTS is 0"));
        }
        Ok(Self { ranks: ZipfRanks::new(keys, theta), random: Random::new(seed), requests, made: 0 })
    }

    /// Makes the next request; `false` after the last.
    #[inline]
    pub fn read(&mut self, request: &mut Request) -> bool {
        if self.made == self.requests {
            return false;
        }
        request.set_key(mix(self.ranks.sample(&mut self.random)));
        request.time_s = self.made / REQUESTS_PER_S;
        (request.operation, request.ttl_s, request.value_bytes) = (Operation::Get, 0, VALUE_BYTES);
        self.made += 1;
        true
    }

    /// Requests made, and requests in all.
    pub fn position(&self) -> (u64, u64) {
        (self.made, self.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pearson's statistic of 400 thousand draws against the exact probabilities, ranks of small
    /// expectation pooled; gives it with its degrees of freedom.
    fn chi_square(ranks: u64, theta: f64, shift: f64) -> (f64, f64) {
        const DRAWS: u64 = 400_000;
        let zipf = ZipfRanks::shifted(ranks, theta, shift);
        let mut random = Random::new(42);
        let mut counts = vec![0_u64; ranks as usize];
        for _ in 0..DRAWS {
            counts[zipf.sample(&mut random) as usize - 1] += 1;
        }
        let weights: Vec<f64> = (1..=ranks).map(|rank| (rank as f64 + shift).powf(-theta)).collect();
        let total: f64 = weights.iter().sum();
        let (mut statistic, mut cells, mut expected, mut seen) = (0.0, 0.0, 0.0, 0.0);
        for (weight, count) in weights.iter().zip(&counts) {
            expected += weight / total * DRAWS as f64;
            seen += *count as f64;
            if expected >= 20.0 {
                statistic += (seen - expected) * (seen - expected) / expected;
                (cells, expected, seen) = (cells + 1.0, 0.0, 0.0);
            }
        }
        (statistic, cells - 1.0)
    }

    #[test]
    fn ranks_follow_the_exact_distribution_for_every_exponent() {
        for (ranks, theta) in [
            (1, 0.99),
            (2, 1.0),
            (10, 0.0),
            (100, 0.5),
            (1000, 0.99),
            (1000, 1.0),
            (1000, 1.0 + 1e-10),
            (5000, 1.3),
            (50, 4.0),
            (5000, 8.0),
        ] {
            for shift in [0.0, 0.5, 10_000.0] {
                let (statistic, freedom) = chi_square(ranks, theta, shift);
                // Four standard deviations of the chi-square distribution above its mean.
                let most = freedom + 4.0 * (2.0 * freedom).sqrt() + 4.0;
                assert!(statistic <= most, "{ranks} ranks, theta {theta}, shift {shift}: {statistic} of {freedom}");
            }
        }
    }

    #[test]
    fn a_seed_determines_the_load_and_no_two_ranks_share_a_key() {
        let keys = |seed| {
            let mut zipf = Zipf::parse("1000,0.5,20000", seed).unwrap();
            let mut request = Request::default();
            let mut keys = Vec::new();
            while zipf.read(&mut request) {
                keys.push(request.key.clone());
            }
            keys
        };
        let first = keys(1);
        assert_eq!(first, keys(1));
        assert_ne!(first, keys(2));
        assert_eq!(first.iter().collect::<std::collections::HashSet<_>>().len(), 1000);
    }

    #[test]
    fn a_wrong_description_is_refused() {
        for spec in ["", "1", "1,2", "0,1,1", "1,x,1", "1,-1,1", "1,NaN,1", "1,1,0", "1,1,1,1", "-3,1,1", "1e6,1,1"] {
            assert!(Zipf::parse(spec, 0).is_err(), "{spec}");
        }
        assert!(Zipf::parse("1000000, 0.99, 5", 0).is_ok());
    }
}
