//! Ditto, Fig. 21: more and more clients join while a trace is replayed.

use super::staged::{self, Counted, Stage};
use super::systems::{self, LRU};
use crate::bench::loads::{Known, fixed};
use crate::bench::sweep::Swept;
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::report::places::Places;

/// In place of the block trace of mail servers that the paper has.
pub(super) const TRACE: &str = "arc_p3";
const CACHE_PERCENT: u64 = 20;
const CLIENTS: [u16; 10] = [16, 32, 48, 64, 80, 96, 112, 128, 144, 160];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let counts = options.scaled(CLIENTS.to_vec(), vec![2, 4, 8]);
    let most = *counts.last().expect("there are clients");
    let load = Known::of(fixed(TRACE, 2_500_000, most, CACHE_PERCENT, options)?);
    let at = |clients, part| Stage { clients, memory_percent: 100, part };
    // A fifth of all requests come before.
    let stages: Vec<Stage> =
        [at(counts[0], counts.len() as u64)].into_iter().chain(counts.iter().map(|clients| at(*clients, 4))).collect();
    let mut systems = systems::ditto(|options| options);
    systems.extend(systems::cliquemap());
    let setups = systems.iter().map(|system| system.share(&load, most, CACHE_PERCENT, options.seed)).collect();
    let counted = staged::measure_all(&systems, setups, &stages, options)?;
    let lines = counted.lines.into_iter().map(|line| line[1..].to_vec()).collect();
    let places = Places::numbers("clients", "", counts.iter().copied());
    let counted = Swept::new(places, counted.names, lines);
    let lru = &counted.lines()[LRU];
    let over_lru = counted.names().iter().zip(counted.lines()).map(|(name, line)| {
        let ratios = line.iter().zip(lru).map(|(one, lru)| one.hit_percent() / lru.hit_percent().max(1e-9));
        counted.places().line(name.clone(), ratios)
    });
    Ok(Findings {
        what: format!(
            "{}, in place of the paper's webmail. The first fifth of the requests is made by {} clients and not counted; then, after each further part of the trace, more \
             clients join, up to {most}. Every part is dealt to all clients that are there in turn, so that clients change the order of requests no more than they are out of step. A miss takes \
             500 us. That the cache has {CACHE_PERCENT} % of the objects and which numbers of clients there are is not said in the paper's text; they are those of its published scripts. CliqueMap has one core at the memory node. \
             The text prints no number of this figure, and says that Ditto hits more than both experts alone.",
            load.what(),
            counts[0],
        ),
        figures: vec![
            counted.places().factors("Hit ratio over Ditto-LRU's", "times higher", over_lru),
            counted.figure("Hit ratio", ("hit ratio", "%"), Counted::hit_percent),
            staged::weights(counted.names(), counted.lines(), 1),
        ],
    })
}
