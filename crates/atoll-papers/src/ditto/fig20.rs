//! Ditto, Fig. 20: clients move from an application that is friendly to LFU to one that is friendly
//! to LRU.

use super::fig19::telling_soon;
use super::systems::{LFU, LRU};
use crate::bench::measured::Measured;
use crate::bench::sweep::{Sweep, Swept};
use crate::bench::tenants::Applications;
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::load::Load;
use atoll_lab::load::patterned::{Pattern, Patterned};
use atoll_lab::load::ycsb::OBJECT_BYTES;
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;
use std::sync::Arc;

/// Percent of the clients that belong to the application that is friendly to LRU.
const PORTIONS: [u64; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
const CLIENTS: u16 = 20;
/// The portion below which section 5.4.2 says that LFU hits more than LRU.
const PRINTED_PORTION: f64 = 0.4;

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, requests, clients) = options.scaled((2_000, 400_000, CLIENTS), (500, 20_000, 4));
    let portions = options.scaled(PORTIONS.to_vec(), vec![0, 50, 100]);
    let application = |pattern| -> Arc<dyn Load> {
        let (phases, seed) = (vec![pattern], options.seed);
        Arc::new(Patterned { phases, keys, object_bytes: OBJECT_BYTES, requests, seed })
    };
    let applications = [Pattern::Recent, Pattern::Frequent].map(application);
    let mixed = |first_percent: &u64| -> Arc<dyn Load> {
        Arc::new(Applications { loads: applications.clone(), first_percent: *first_percent })
    };
    let loads: Vec<_> = portions.iter().map(mixed).collect();
    let xs = portions.iter().map(|portion| *portion as f64 / 100.0);
    let mut sweep = Sweep::over(Places::numbers("portion of the clients", "", xs.clone()));
    for system in telling_soon() {
        sweep.line(system.name, loads.iter().map(|load| system.point(load, clients, keys, options.seed)));
    }
    let measured = sweep.measure(options)?;
    Ok(Findings {
        what: format!(
            "Two generated applications in place of parts of the paper's webmail trace, {requests} requests of both together. In the one that is friendly to LRU each is for one of the {keys} newest keys, of which a new one comes and \
             the oldest goes after every second request of it; in the one that is friendly to LFU one half are for {keys} popular keys, and the other half each for a key that is asked for once. The cache has room for \
             {keys} objects of {OBJECT_BYTES} bytes: each application alone could use all of it. {clients} clients; the first fifth of the requests is the warm-up, and a miss takes 500 us. Accesses are told as soon as in ditto-fig19. \
             The paper's text prints that Ditto-LFU hits more where the portion is below {PRINTED_PORTION} and Ditto-LRU where it is higher: a number of its own two applications, which other ones need not have.",
        ),
        figures: figures(&measured, &xs.collect::<Vec<_>>(), options.quick),
    })
}

fn figures(measured: &Swept<Measured>, portions: &[f64], quick: bool) -> Vec<Figure> {
    let hits = |system: usize, place: usize| measured.lines()[system][place].hit_percent();
    let over_lru = measured.names().iter().enumerate().map(|(system, name)| {
        let places = 0..portions.len();
        let ratios = places.map(|place| hits(system, place) / hits(LRU, place).max(1e-9));
        measured.places().line(name.clone(), ratios)
    });
    // Between the last portion at which LFU hits more and the next.
    let ahead = |place: usize| hits(LFU, place) - hits(LRU, place);
    let last = (0..portions.len()).rev().find(|place| hits(LFU, *place) > hits(LRU, *place));
    let crossing = last.and_then(|last| {
        let next = portions.get(last + 1)?;
        Some(portions[last] + (next - portions[last]) * ahead(last) / (ahead(last) - ahead(last + 1)))
    });
    let all = Places::named("", ["all portions"]);
    let printed = (!quick).then_some(PRINTED_PORTION);
    vec![
        measured.places().factors("Hit ratio over Ditto-LRU's", "times higher", over_lru),
        measured.figure("Hit ratio", ("hit ratio", "%"), Measured::hit_percent),
        all.figure(
            "Portion up to which Ditto-LFU hits more than Ditto-LRU, if there is one",
            ("portion", ""),
            [all.line("portion", crossing).beside([printed])],
        ),
    ]
}
