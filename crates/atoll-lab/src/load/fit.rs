//! Zipf's exponent, fitted to a load: the least-squares line through (ln rank, ln frequency) of all
//! objects.
//!
//! Objects with a single request count like any other. Most of the weight of a cache trace is
//! therefore in the tail. The table of Twitter's clusters is fitted in this way. In its cluster 15
//! only 0.43 % of the objects come more than once. The table has 0.0242 for it, and the line
//! through all objects gives 0.024. A line through the repeated objects alone would be steep.

/// A fitted line.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Fit {
    /// Zipf's exponent: the slope, positive where frequencies fall with the rank.
    pub alpha: f64,
    /// The share of the variance of ln frequency that the line explains; 1 where all frequencies
    /// are equal.
    pub r_squared: f64,
}

/// Sums of ln r and of its square over the ranks up to `rank`, by Stirling's and the
/// Euler-Maclaurin formula from rank 1 on.
fn sums(rank: f64) -> (f64, f64) {
    /// Where the second sum less its formula tends to (after Stieltjes); at rank 1 it is off by
    /// 0.006, from rank 10 on by 1e-5 at most.
    const SQUARES: f64 = -2.006_356_455_908_585;
    if rank < 0.5 {
        return (0.0, 0.0);
    }
    let log = libm::log(rank);
    let (half, sixth) = (log * log / 2.0, log / (6.0 * rank));
    (libm::lgamma(rank + 1.0), rank * (log * log - 2.0 * log + 2.0) + half + sixth + SQUARES)
}

/// Fits objects given in groups of (frequency, count), hottest first. Counts need not be whole,
/// since they may be expected ones.
///
/// `None` for fewer than two objects.
pub fn fit(groups: impl IntoIterator<Item = (f64, f64)>) -> Option<Fit> {
    let (mut rank, mut below) = (0.0, (0.0, 0.0));
    let (mut y_sum, mut y_squares, mut products) = (0.0, 0.0, 0.0);
    for (frequency, count) in groups {
        rank += count;
        let upto = sums(rank);
        let y = libm::log(frequency);
        y_sum += y * count;
        y_squares += y * y * count;
        products += y * (upto.0 - below.0);
        below = upto;
    }
    if rank < 1.5 {
        return None;
    }
    let variance = |squares: f64, sum: f64| squares - sum * sum / rank;
    let (x, y) = (variance(below.1, below.0), variance(y_squares, y_sum));
    let both = products - below.0 * y_sum / rank;
    let flat = y <= 1e-12 * y_squares.max(1.0);
    Some(Fit { alpha: -both / x, r_squared: if flat { 1.0 } else { (both * both / (x * y)).min(1.0) } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_ranks_one_by_one() {
        let (mut first, mut second) = (0.0, 0.0);
        for rank in 1..=2000 {
            let log = f64::from(rank).ln();
            (first, second) = (first + log, second + log * log);
            let (logs, squares) = sums(f64::from(rank));
            assert!((logs - first).abs() < 1e-9 * first.max(1.0), "{rank}: {logs} {first}");
            assert!((squares - second).abs() < 0.01 + 1e-7 * second, "{rank}: {squares} {second}");
        }
    }

    #[test]
    fn an_exact_power_law_has_its_exponent() {
        for alpha in [0.0, 0.5, 0.99, 2.0] {
            let fit = fit((1..=5000).map(|rank| (1e9 * f64::from(rank).powf(-alpha), 1.0))).unwrap();
            assert!((fit.alpha - alpha).abs() < 1e-4 && fit.r_squared > 0.9999, "{fit:?}");
        }
        assert!(fit([(5.0, 1.0)]).is_none());
    }
}
