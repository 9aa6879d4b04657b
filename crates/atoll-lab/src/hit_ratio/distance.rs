//! How far the policies in a pool, which see samples, are from their exact forms.

use super::oracle::{self, Point};
use super::{Row, measure};
use crate::LabError;
use atoll_deployment::EngineName;
use atoll_deployment::reference::PolicyName;
use serde::Serialize;
use std::path::PathBuf;

/// Hold each policy as an engine has it, by samples, against its exact form
#[derive(Clone, Debug, clap::Args)]
pub struct DistanceCommand {
    /// Folder of *.oracleGeneral.zst with oracle_miss_ratio.csv and README.md
    dir: PathBuf,
    /// The policies; all if none is named
    #[arg(long, value_delimiter = ',', value_parser = with_both_forms)]
    policies: Vec<PolicyName>,
    /// Caches of at least this many objects
    #[arg(long, default_value_t = 1000)]
    objects_min: u64,
    /// Only traces whose names hold this
    #[arg(long)]
    only: Option<String>,
    /// Print one JSON object a policy
    #[arg(long)]
    json: bool,
}

/// One policy's distance. Miss ratios of the sampled form less those of the exact one, in
/// percentage points, over real traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distance {
    /// The policy.
    pub policy: String,
    /// Traces and cache sizes compared.
    pub points: usize,
    /// Mean gap of the exact form to Belady.
    pub exact_gap_pp: f64,
    /// Mean gap of the sampled form to Belady.
    pub sampled_gap_pp: f64,
    /// The mean of the absolute differences.
    pub mean_absolute_pp: f64,
    /// The least difference, and where: there the sampled form misses least in comparison.
    pub least_pp: (f64, String),
    /// The largest.
    pub largest_pp: (f64, String),
}

impl DistanceCommand {
    /// Does the experiment and prints its result.
    pub fn run(self) -> Result<(), LabError> {
        let mut points = oracle::read(&self.dir)?;
        points.retain(|point| point.real && point.cache_objects >= self.objects_min);
        points.retain(|point| self.only.as_ref().is_none_or(|only| point.trace.contains(only)));
        if points.is_empty() {
            let what = "no real trace of the folder has a cache of that size: lower --objects-min, or leave --only out";
            return Err(LabError::Folder { path: self.dir, what: what.to_owned() });
        }
        let policies: Vec<PolicyName> = if self.policies.is_empty() { both_forms().collect() } else { self.policies };
        if !self.json {
            println!("{:<12}{:>8}{:>9}{:>12}{:>20}", "policy", "exact", "sampled", "difference", "least and largest");
        }
        for policy in policies {
            let exact = measure(&self.dir, &points, &EngineName::Reference(policy), 1)?;
            let engine = sampled(policy).expect("its name was looked at");
            let sampled = measure(&self.dir, &points, &engine, 1)?;
            let distance = distance(policy, &points, &exact.rows, &sampled.rows);
            if self.json {
                println!("{}", serde_json::to_string(&distance).expect("a distance is plain data"));
                continue;
            }
            println!(
                "{:<12}{:>8.2}{:>9.2}{:>12.2}{:>10.2} ({}) {:+.2} ({})",
                distance.policy,
                distance.exact_gap_pp,
                distance.sampled_gap_pp,
                distance.mean_absolute_pp,
                distance.least_pp.0,
                distance.least_pp.1,
                distance.largest_pp.0,
                distance.largest_pp.1
            );
        }
        if !self.json {
            println!(
                "points: gap to Belady, and of the differences (sampled less exact) the mean size, the least, the largest"
            );
        }
        Ok(())
    }
}

/// The engine that has the policy alone.
fn sampled(policy: PolicyName) -> Result<EngineName, String> {
    format!("ditto:{policy}").parse()
}

fn with_both_forms(text: &str) -> Result<PolicyName, String> {
    let policy = text.parse()?;
    sampled(policy).map(|_| policy)
}

/// The policies that an engine takes as an expert.
fn both_forms() -> impl Iterator<Item = PolicyName> {
    PolicyName::all().filter(|policy| sampled(*policy).is_ok())
}

fn distance(policy: PolicyName, points: &[Point], exact: &[Row], sampled: &[Row]) -> Distance {
    let mean = |of: &dyn Fn(usize) -> f64| (0..points.len()).map(of).sum::<f64>() / points.len() as f64;
    let gap = |rows: &[Row], index: usize| {
        100.0 * (rows[index].miss_ratio - points[index].miss_ratio("Belady").unwrap_or(f64::NAN))
    };
    let difference = |index: usize| 100.0 * (sampled[index].miss_ratio - exact[index].miss_ratio);
    let place = |index: usize| format!("{} at {} %", points[index].trace, points[index].size_pct);
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| difference(a).total_cmp(&difference(b)));
    let (first, last) = (order[0], order[points.len() - 1]);
    Distance {
        policy: policy.to_string(),
        points: points.len(),
        exact_gap_pp: mean(&|index| gap(exact, index)),
        sampled_gap_pp: mean(&|index| gap(sampled, index)),
        mean_absolute_pp: mean(&|index| difference(index).abs()),
        least_pp: (difference(first), place(first)),
        largest_pp: (difference(last), place(last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_those_of_the_sampled_form_to_the_exact_one() {
        let points = ["a", "b"].map(|trace| Point::missed_by_a_quarter(trace, 10));
        let rows = |misses: [f64; 2]| [Row::of(&points[0], misses[0]), Row::of(&points[1], misses[1])];
        let found = distance(PolicyName::Lru, &points, &rows([0.5, 0.5]), &rows([0.75, 0.375]));
        assert_eq!((found.points, found.exact_gap_pp, found.sampled_gap_pp), (2, 25.0, 31.25));
        assert_eq!(found.mean_absolute_pp, 18.75);
        assert_eq!(found.least_pp, (-12.5, "b at 10 %".to_owned()));
        assert_eq!(found.largest_pp, (25.0, "a at 10 %".to_owned()));
    }

    #[test]
    fn every_policy_of_the_engine_has_both_forms() {
        assert!(both_forms().count() >= 12);
    }
}
