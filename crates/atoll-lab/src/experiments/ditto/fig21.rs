//! Ditto, Fig. 21: more and more clients join while a trace is replayed.

use super::super::fig14::fixed_for;
use super::super::point::run_all;
use super::super::setup::Footprint;
use super::super::{Experiment, Options, shape};
use super::staged::{self, Counted, Stage};
use super::{WITH_CLIQUEMAP, names, on_all};
use crate::{LabError, report};

/// In place of the block trace of mail servers that the paper has.
pub(super) const TRACE: &str = "arc_p3";
const CACHE_PERCENT: u64 = 20;
const CLIENTS: [u16; 10] = [16, 32, 48, 64, 80, 96, 112, 128, 144, 160];
/// The place of Ditto-LRU among [`WITH_CLIQUEMAP`].
const LRU: usize = 1;

/// The experiment.
pub(crate) struct Clients;

impl Experiment for Clients {
    fn name(&self) -> &'static str {
        "ditto-fig21"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 21: hit ratios over Ditto-LRU's while clients join, 16 to 160, a block trace, 20 % cache"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let counts = options.scaled(CLIENTS.to_vec(), vec![2, 4, 8]);
        let most = *counts.last().expect("there are clients");
        let load = fixed_for(TRACE, 2_500_000, most, CACHE_PERCENT, options)?;
        let objects = Footprint::of(&*load).objects;
        let parts = counts.len() as u64;
        let at = |clients, part| Stage { clients, memory_percent: 100, part };
        // A fifth of all requests come before.
        let stages: Vec<Stage> =
            [at(counts[0], parts)].into_iter().chain(counts.iter().map(|clients| at(*clients, 4))).collect();
        let setups = on_all(&WITH_CLIQUEMAP, &load, most, objects * CACHE_PERCENT / 100, options.seed);
        let (counted, _) = run_all(&setups, options.workers, |setup| staged::measure(setup, &stages))?;
        let lines: Vec<&[Counted]> = counted.iter().map(|line| &line[1..]).collect();
        let places = counts.iter().map(|clients| f64::from(*clients));
        let line = |(name, line): (String, &&[Counted]), of: &dyn Fn(usize, &Counted) -> f64| {
            shape::series(name, places.clone().zip(line.iter().enumerate().map(|(place, one)| of(place, one))))
        };
        let lines_of = |of: &dyn Fn(usize, &Counted) -> f64| -> Vec<report::Series> {
            names(&WITH_CLIQUEMAP).into_iter().zip(&lines).map(|named| line(named, of)).collect()
        };
        let over_lru = |place: usize, one: &Counted| one.hit_percent() / lines[LRU][place].hit_percent().max(1e-9);
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{}: {} requests for {objects} keys, in place of the paper's webmail. The first fifth of the requests is made by {} clients and not counted; then, after each further part of the trace, more \
                 clients join, up to {most}. Every part is dealt to all clients that are there in turn, so that clients change the order of requests no more than they are out of step. A miss takes \
                 500 us. That the cache has {CACHE_PERCENT} % of the objects and which numbers of clients there are is not said in the paper's text; they are those of its published scripts. CliqueMap has one core at the memory node. \
                 The text prints no number of this figure, and says that Ditto hits more than both experts alone.",
                load.what(),
                load.requests(),
                counts[0],
            ),
            figures: vec![
                report::Figure {
                    title: "Hit ratio over Ditto-LRU's".to_owned(),
                    x: shape::axis("clients", ""),
                    y: shape::axis("times higher", ""),
                    series: lines_of(&over_lru),
                },
                report::Figure {
                    title: "Hit ratio".to_owned(),
                    x: shape::axis("clients", ""),
                    y: shape::axis("hit ratio", "%"),
                    series: lines_of(&|_, one| one.hit_percent()),
                },
                staged::weights(&names(&WITH_CLIQUEMAP), &lines, 1),
            ],
        })
    }
}
