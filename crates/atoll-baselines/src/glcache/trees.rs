//! Trees of gradient boosting, by the crate `smartcore`: its regressor after XGBoost, with exact
//! splits, on one thread, without randomness. The same samples give the same trees.

use super::features::{FEATURES, Features};
use super::sample::Sample;
use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::xgboost::{XGRegressor, XGRegressorParameters};

/// Trees in the sum.
const TREES: usize = 16;
/// Splits from a tree's root to a leaf, at most.
const DEPTH_MAX: u16 = 4;
/// Samples of a leaf, at least.
const LEAF_SAMPLES_MIN: usize = 4;

/// The learnt trees.
#[derive(Debug)]
pub struct Trees {
    regressor: XGRegressor<f32, f32, DenseMatrix<f32>, Vec<f32>>,
}

fn matrix(rows: impl ExactSizeIterator<Item = Features>) -> Option<DenseMatrix<f32>> {
    let count = rows.len();
    let numbers: Vec<f32> = rows.flat_map(|features| features.0).collect();
    DenseMatrix::new(count, FEATURES, numbers, false).ok()
}

impl Trees {
    /// Learns from samples; `None` if there are none, or the training fails.
    pub fn train(samples: &[Sample]) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        let targets: Vec<f32> = samples.iter().map(|sample| sample.utility_log).collect();
        let mean = targets.iter().map(|target| f64::from(*target)).sum::<f64>() / targets.len() as f64;
        let parameters = XGRegressorParameters::default()
            .with_n_estimators(TREES)
            .with_max_depth(DEPTH_MAX)
            .with_min_child_weight(LEAF_SAMPLES_MIN)
            .with_base_score(mean);
        let features = matrix(samples.iter().map(|sample| sample.features))?;
        Some(Self { regressor: XGRegressor::fit(&features, &targets, parameters).ok()? })
    }

    /// The logarithm of the utility of each group, as the trees predict it.
    pub fn predict(&self, groups: &[Features]) -> Option<Vec<f32>> {
        if groups.is_empty() {
            return Some(Vec::new());
        }
        self.regressor.predict(&matrix(groups.iter().copied())?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(nth: u32) -> Sample {
        // A group's utility depends on its requests and its age alone; the rest is noise.
        let noise = |of: u32| (of.wrapping_mul(2_654_435_761) >> 16) as f32;
        let (age, requests) = (1.0 + (nth % 13) as f32, (nth % 7) as f32);
        let features = Features([noise(nth), noise(nth + 1), 0.5, 256.0, age, requests, requests.min(3.0)]);
        Sample { features, utility_log: requests / age }
    }

    #[test]
    fn trees_put_groups_in_the_order_of_what_they_are_worth_and_the_same_samples_give_the_same_trees() {
        let samples: Vec<Sample> = (0..400).map(sample).collect();
        let others: Vec<Sample> = (1000..1100).map(sample).collect();
        let features: Vec<Features> = others.iter().map(|other| other.features).collect();
        let predicted = Trees::train(&samples).unwrap().predict(&features).unwrap();
        let (mut right, mut all) = (0, 0);
        for (a, b) in (0..others.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
            if (others[a].utility_log - others[b].utility_log).abs() > 0.2 {
                all += 1;
                let agree = (predicted[a] > predicted[b]) == (others[a].utility_log > others[b].utility_log);
                right += u32::from(agree);
            }
        }
        assert!(right * 10 > all * 9, "{right} of {all}");
        assert_eq!(Trees::train(&samples).unwrap().predict(&features), Some(predicted));
    }

    #[test]
    fn extreme_samples_and_none_are_no_danger() {
        assert!(Trees::train(&[]).is_none());
        let extreme = Sample { features: Features([1e12; FEATURES]), utility_log: 1e12 };
        let none = Sample { features: Features([0.0; FEATURES]), utility_log: 0.0 };
        for samples in [vec![extreme], vec![extreme; 10], [vec![extreme; 10], vec![none; 10]].concat()] {
            let trees = Trees::train(&samples).unwrap();
            assert!(trees.predict(&[extreme.features, none.features]).unwrap().iter().all(|each| each.is_finite()));
            assert_eq!(trees.predict(&[]), Some(Vec::new()));
        }
    }
}
