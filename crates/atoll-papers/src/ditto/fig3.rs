//! Ditto, Fig. 3: hit ratios of LRU and LFU while clients move from one application to another one.

use super::exact::{self, Keys, POLICIES};
use crate::bench::tenants::Applications;
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::load::Load;
use atoll_lab::load::patterned::{Pattern, Patterned};
use atoll_lab::load::ycsb::OBJECT_BYTES;
use atoll_lab::report::places::Places;
use std::sync::Arc;

/// Percent of the clients that belong to the application that is friendly to LRU.
const PORTIONS: [u64; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
const CLIENTS: u64 = 20;

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, requests) = options.scaled((2_000, 400_000), (500, 20_000));
    let application = |pattern| -> Arc<dyn Load> {
        let (phases, seed) = (vec![pattern], options.seed);
        Arc::new(Patterned { phases, keys, object_bytes: OBJECT_BYTES, requests, seed })
    };
    let loads = [Pattern::Recent, Pattern::Frequent].map(application);
    let mixed = |first_percent: &u64| {
        let both = Applications { loads: loads.clone(), first_percent: *first_percent };
        let mut streams: Vec<_> = (0..CLIENTS).map(|client| both.stream(client, CLIENTS)).collect();
        // All clients in turn.
        let mut keys = Vec::new();
        loop {
            let before = keys.len();
            keys.extend(streams.iter_mut().filter_map(Iterator::next).map(|request| request.key));
            if keys.len() == before {
                return Keys { name: format!("{first_percent} %"), keys, objects: 0 };
            }
        }
    };
    let mixtures: Vec<Keys> = PORTIONS.iter().map(mixed).collect();
    let objects = keys as usize;
    let hits = exact::by(&mixtures, &[()], options, |mixture, (), policy| {
        exact::hit_percent(policy, objects, mixture.keys.iter().copied())
    })?;
    let places = Places::named("clients of the application friendly to LRU", mixtures.iter().map(|it| it.name.clone()));
    let lines = ["lru", "lfu"].into_iter().zip(0..POLICIES.len());
    let lines = lines.map(|(name, policy)| places.line(name, hits.iter().map(|of| of[0][policy])));
    Ok(Findings {
        what: format!(
            "Two generated applications in place of parts of an FIU trace: see ditto-fig20, which has the same ones on Ditto. {CLIENTS} clients make {requests} requests in turn; a cache for {keys} objects evicts by \
             the exact policies. The paper's text prints no number of this figure.",
        ),
        figures: vec![places.figure("Hit ratio", ("hit ratio", "%"), lines)],
    })
}
