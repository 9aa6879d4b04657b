//! Ditto, Fig. 20: clients move from an application that is friendly to LFU to one that is friendly
//! to LRU.

use super::super::point::{Measured, measure_all};
use super::super::tenants::Applications;
use super::super::{Experiment, Options, shape};
use super::fig19::SYSTEMS;
use super::{names, on_all};
use crate::load::Load;
use crate::load::patterned::{Pattern, Patterned};
use crate::load::ycsb::OBJECT_BYTES;
use crate::{LabError, report};
use std::sync::Arc;

/// Percent of the clients that are the application's that is friendly to LRU.
const PORTIONS: [u64; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
const CLIENTS: u16 = 20;
/// The portion below which section 5.4.2 says that LFU hits more than LRU.
const PRINTED_PORTION: f64 = 0.4;
/// The places of both experts alone among [`SYSTEMS`].
const LRU: usize = 1;
const LFU: usize = 2;

/// The experiment.
pub(crate) struct Mixed;

impl Experiment for Mixed {
    fn name(&self) -> &'static str {
        "ditto-fig20"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 20: hit ratios over Ditto-LRU's, by the part of the clients that an application friendly to LRU has, 20 clients"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let (keys, requests, clients) = options.scaled((2_000, 400_000, CLIENTS), (500, 20_000, 4));
        let portions = options.scaled(PORTIONS.to_vec(), vec![0, 50, 100]);
        let application = |pattern| -> Arc<dyn Load> {
            let (phases, seed) = (vec![pattern], options.seed);
            Arc::new(Patterned { phases, keys, object_bytes: OBJECT_BYTES, requests, seed })
        };
        let loads = [Pattern::Recent, Pattern::Frequent].map(application);
        let mut setups = Vec::new();
        for portion in &portions {
            let load: Arc<dyn Load> = Arc::new(Applications { loads: loads.clone(), first_percent: *portion });
            setups.extend(on_all(&SYSTEMS, &load, clients, keys, options.seed));
        }
        let measured = measure_all(&setups, options.workers)?;
        let points: Vec<&[Measured]> = measured.chunks(SYSTEMS.len()).collect();
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "Two generated applications in place of parts of the paper's webmail trace, {requests} requests of both together. In the one that is friendly to LRU each is for one of the {keys} newest keys, of which a new one comes and \
                 the oldest goes after every second request of it; in the one that is friendly to LFU one half are for {keys} popular keys, and the other half each for a key that is asked for once. The cache has room for \
                 {keys} objects of {OBJECT_BYTES} bytes: each application alone could use all of it. {clients} clients; the first fifth of the requests is the warm-up, and a miss takes 500 us. Accesses are told as soon as in ditto-fig19. \
                 The paper's text prints that Ditto-LFU hits more where the portion is below {PRINTED_PORTION} and Ditto-LRU where it is higher: a number of its own two applications, which other ones need not have.",
            ),
            figures: figures(&portions, &points, options.quick),
        })
    }
}

fn figures(portions: &[u64], points: &[&[Measured]], quick: bool) -> Vec<report::Figure> {
    let x = || shape::axis("portion of the clients", "");
    let xs: Vec<f64> = portions.iter().map(|portion| *portion as f64 / 100.0).collect();
    let line = |(system, name): (usize, String), of: &dyn Fn(&[Measured], usize) -> f64| {
        shape::series(name, xs.iter().zip(points).map(|(x, point)| (*x, of(point, system))))
    };
    let lines = |of: &dyn Fn(&[Measured], usize) -> f64| -> Vec<report::Series> {
        names(&SYSTEMS).into_iter().enumerate().map(|named| line(named, of)).collect()
    };
    let hits = |point: &[Measured], system: usize| point[system].hit_percent();
    // Between the last portion at which LFU hits more and the next.
    let last = points.iter().rposition(|point| hits(point, LFU) > hits(point, LRU));
    let crossing = last.and_then(|last| {
        let ahead = |place: usize| hits(points[place], LFU) - hits(points[place], LRU);
        let next = xs.get(last + 1)?;
        Some(xs[last] + (next - xs[last]) * ahead(last) / (ahead(last) - ahead(last + 1)))
    });
    let paper = (!quick).then_some(PRINTED_PORTION);
    vec![
        report::Figure {
            title: "Hit ratio over Ditto-LRU's".to_owned(),
            x: x(),
            y: shape::axis("times higher", ""),
            series: lines(&|point, system| hits(point, system) / hits(point, LRU).max(1e-9)),
        },
        report::Figure {
            title: "Hit ratio".to_owned(),
            x: x(),
            y: shape::axis("hit ratio", "%"),
            series: lines(&hits),
        },
        report::Figure {
            title: "Portion up to which Ditto-LFU hits more than Ditto-LRU, if there is one".to_owned(),
            x: shape::categories("", ["all portions"]),
            y: shape::axis("portion", ""),
            series: vec![report::Series {
                name: "portion".to_owned(),
                points: crossing.map(|y| report::Point { x: 0.0, y, paper }).into_iter().collect(),
            }],
        },
    ]
}
