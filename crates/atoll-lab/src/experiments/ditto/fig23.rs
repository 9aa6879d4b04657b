//! Ditto, Fig. 23: twelve policies.

use super::super::point::{Measured, measure_all};
use super::super::setup::Footprint;
use super::super::{Experiment, Options, fig14, shape};
use super::{cache_bytes, paper, setup, verbs_figure};
use crate::{LabError, report};

/// The paper's, in its order (Table 3).
const POLICIES: [&str; 12] =
    ["lru", "lfu", "mru", "gds", "lirs", "fifo", "size", "gdsf", "lrfu", "lru-k", "lfuda", "hyperbolic"];
const CACHE_PERCENT: u64 = 10;
/// In place of the block trace of mail servers that the paper has.
const TRACE: &str = "arc_p3";

/// The experiment.
pub(crate) struct Policies;

impl Experiment for Policies {
    fn name(&self) -> &'static str {
        "ditto-fig23"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 23: twelve policies on a block trace, 10 % cache, 64 clients"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let clients = options.scaled(64, 4);
        let load = fig14::fixed(TRACE, 800_000, clients, options)?;
        let footprint = Footprint::of(&*load);
        let setups = POLICIES.map(|policy| {
            let ditto = paper(policy);
            let bytes = cache_bytes(&ditto, footprint.objects * CACHE_PERCENT / 100);
            setup(load.clone(), &ditto, clients, bytes, options.seed)
        });
        let measured = measure_all(&setups, options.workers)?;
        let xs: Vec<f64> = (0..POLICIES.len()).map(|place| place as f64).collect();
        let x = shape::categories("policy", POLICIES);
        let mut figures = shape::figures(&x, &xs, &["ditto".to_owned()], &[&measured]);
        let all: Vec<&Measured> = measured.iter().collect();
        figures.push(verbs_figure("Verbs by policy", &POLICIES.map(str::to_owned), &all));
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{}: {} requests for {} keys, of objects of one size. It is in place of the webmail trace of FIU, which cannot be had: block I/O as that, of an NT workstation. \
                 There is no penalty for a miss. The paper says neither the cache size nor the number of clients of this figure: {CACHE_PERCENT} % of the objects and the {clients} of its \
                 other real traces are taken. Its text prints no number, and says that SIZE is the best and MRU the worst; with objects of one size SIZE knows nothing of \
                 them.",
                load.what(),
                load.requests(),
                footprint.objects,
            ),
            figures,
        })
    }
}
