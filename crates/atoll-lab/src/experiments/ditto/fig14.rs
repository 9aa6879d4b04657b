//! Ditto, Fig. 14: YCSB over the number of clients, without misses.

use super::super::point::{Measured, measure_all};
use super::super::processor::ServerCosts;
use super::super::{Experiment, Options, shape};
use super::{paper, roomy_bytes, setup, verbs_figure, without_misses, ycsb};
use crate::load::ycsb::OBJECT_BYTES;
use crate::{LabError, report};
use atoll_cache::cliquemap::Policy;

/// Workloads, and what section 5.3 prints of their throughput in Mops: at 256 clients, where the NIC of the memory node is the limit.
const WORKLOADS: [(&str, f64); 4] = [("ycsb-a", 10.5), ("ycsb-b", 13.1), ("ycsb-c", 13.2), ("ycsb-d", 13.0)];
const CLIENTS: [u16; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Section 5.3: "up to 9x higher than Shard-LRU and CliqueMap".
const TIMES_MOST: f64 = 9.0;

/// The experiment.
pub(crate) struct Ycsb;

impl Experiment for Ycsb {
    fn name(&self) -> &'static str {
        "ditto-fig14"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 14: YCSB A to D on Ditto and CliqueMap, 1 to 256 clients, no misses"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let (keys, requests) = options.scaled((300_000, 400_000), (2_000, 8_000));
        let clients = options.scaled(CLIENTS.to_vec(), vec![1, 16]);
        let mut setups = [Vec::new(), Vec::new()];
        for (name, _) in WORKLOADS {
            for clients in &clients {
                let load = ycsb(name, keys, requests, options)?;
                // Of YCSB D a twentieth of the requests are new keys.
                let bytes = roomy_bytes(keys + requests / 20, *clients);
                let ditto = setup(load, &paper("lru+lfu"), *clients, bytes, options.seed);
                setups[0].push(without_misses(ditto.clone()));
                setups[1].push(without_misses(ditto.on_cliquemap(Policy::Lru, bytes, OBJECT_BYTES)));
            }
        }
        let measured = measure_all(&setups.concat(), options.workers)?;
        let lines: Vec<&[Measured]> = measured.chunks(clients.len()).collect();
        let on = |system: &'static str| WORKLOADS.map(|(name, _)| format!("{name}, {system}"));
        let names = [on("ditto"), on("cliquemap-lru")].concat();
        let xs: Vec<f64> = clients.iter().map(|clients| f64::from(*clients)).collect();
        let x = report::Axis { logarithmic: true, ..shape::axis("clients", "") };
        let mut figures = shape::figures(&x, &xs, &names, &lines);
        let is_full = clients.last() == CLIENTS.last();
        if is_full {
            for (line, (_, mops)) in figures[0].series.iter_mut().zip(WORKLOADS) {
                line.points.last_mut().expect("there are clients").paper = Some(mops);
            }
        }
        let (ditto, cliquemap) = lines.split_at(WORKLOADS.len());
        figures.push(ratios(&x, &xs, ditto, cliquemap));
        figures.push(most(ditto, cliquemap, is_full));
        let last: Vec<&Measured> = lines.iter().map(|line| line.last().expect("there are clients")).collect();
        figures.push(verbs_figure("Verbs at the most clients", &names, &last));
        let costs = ServerCosts::measured(Policy::Lru);
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{keys} keys of {OBJECT_BYTES} bytes in place of 10 million, all of them loaded before; {requests} requests. Shard-LRU, which the paper's figure has too, is not \
                 here. CliqueMap is with LRU, on one core of the memory node that takes {} ns for a SET and {} ns for an access that a client tells it of, and as long as a client for \
                 receiving and answering a message; the paper prints no cost. It prints that Ditto has up to 9 times the throughput of Shard-LRU and CliqueMap, not for which of them, and \
                 that with a single client CliqueMap is faster than Ditto in YCSB A. The profile's rates follow from the printed throughput of YCSB C and a GET of 3 READs, a WRITE and a FAA every eleventh time. Our GET \
                 has 2 READs: the history counter, which the paper's clients READ with every look-up, ours know from their own evictions. The last figure counts all \
                 verbs. In YCSB A it shows more CAS than SETs: clients that update the same key at a time begin anew, and with fewer keys the hottest ones are asked for more \
                 often. In YCSB D a client that is ahead of the others asks for keys that they have not inserted yet: these GETs miss.",
                costs.change_ns, costs.access_ns,
            ),
            figures,
        })
    }
}

/// Ditto's throughput over CliqueMap's.
fn times(ditto: &Measured, cliquemap: &Measured) -> f64 {
    ditto.mops() / cliquemap.mops()
}

/// The same at every number of clients.
fn ratios(x: &report::Axis, xs: &[f64], ditto: &[&[Measured]], cliquemap: &[&[Measured]]) -> report::Figure {
    let series = WORKLOADS.iter().zip(ditto.iter().zip(cliquemap)).map(|((name, _), (ditto, cliquemap))| {
        let places = xs.iter().zip(ditto.iter().zip(*cliquemap));
        shape::series(*name, places.map(|(x, (ditto, cliquemap))| (*x, times(ditto, cliquemap))))
    });
    report::Figure {
        title: "Throughput of Ditto over CliqueMap".to_owned(),
        x: x.clone(),
        y: shape::axis("times higher", ""),
        series: series.collect(),
    }
}

/// The most of those, beside the paper's.
fn most(ditto: &[&[Measured]], cliquemap: &[&[Measured]], is_full: bool) -> report::Figure {
    let all = ditto.iter().zip(cliquemap).flat_map(|(ditto, cliquemap)| ditto.iter().zip(*cliquemap));
    let most = all.map(|(ditto, cliquemap)| times(ditto, cliquemap)).fold(0.0, f64::max);
    report::Figure {
        title: "The most that Ditto has over CliqueMap".to_owned(),
        x: shape::categories("of", ["all workloads and clients"]),
        y: shape::axis("times higher", ""),
        series: vec![report::Series {
            name: "throughput".to_owned(),
            points: vec![report::Point { x: 0.0, y: most, paper: is_full.then_some(TIMES_MOST) }],
        }],
    }
}
