//! Ditto, Fig. 16 and 17: penalized throughput and hit ratio of two experts together, of each
//! alone, and of CliqueMap, on real traces.

use super::systems::{self, LFU, LRU, names};
use crate::bench::loads::{Known, fixed};
use crate::bench::measured::Measured;
use crate::bench::sweep::{METRICS, Sweep, Swept};
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::report::Figure;
use atoll_lab::report::places::{Places, retitled};

/// The paper's kinds: block I/O twice, key-value, and the loads like Twitter's clusters; the most
/// requests of a tenant.
const LOADS: [(&str, u64); 5] = [
    ("arc_p3", 1_000_000),
    ("cloudphysics_io", u64::MAX),
    ("scarab_recs", u64::MAX),
    ("twitter-19", 1_000_000),
    ("twitter-54", 1_000_000),
];
const CACHE_PERCENTS: [u64; 3] = [5, 10, 20];
const CLIENTS: u16 = 64;
/// The paper's abstract and introduction, of real workloads: "Ditto outperforms CliqueMap ... by up
/// to ... 3.6x".
const TIMES_MOST: f64 = 3.6;

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let clients = options.scaled(CLIENTS, 4);
    let chosen = &LOADS[..options.scaled(LOADS.len(), 2)];
    let mut systems = systems::ditto(|options| options);
    let of_ditto = systems.len();
    systems.extend(systems::cliquemap());
    let mut sweep = Sweep::over(Places::named("cache", CACHE_PERCENTS.map(|percent| format!("{percent} %"))));
    let mut told = Vec::new();
    for (name, requests_max) in chosen {
        let load = Known::of(fixed(name, *requests_max, clients, CACHE_PERCENTS[0], options)?);
        told.push(load.what());
        for system in &systems {
            let points = CACHE_PERCENTS.map(|percent| system.share(&load, clients, percent, options.seed));
            sweep.line(system.name, points);
        }
    }
    let groups = sweep.measure(options)?.split(names(&systems).len());
    let by_load: Vec<OfLoad> =
        chosen.iter().zip(groups).map(|((load, _), systems)| OfLoad { load, systems, of_ditto }).collect();
    let mut figures = Vec::new();
    for OfLoad { load, systems, .. } in &by_load {
        figures.extend(retitled(systems.figures(&[METRICS[0], METRICS[3]]), |of| format!("{of}, {load}")));
    }
    figures.push(distance(&by_load));
    figures.push(of_cliquemap(&by_load, "Throughput of Ditto over CliqueMap", ("times higher", ""), times));
    figures.push(of_cliquemap(&by_load, "How busy CliqueMap's core is", ("busy", "%"), busy_percent));
    figures.push(most(&by_load, options.quick));
    Ok(Findings {
        what: format!(
            "{}. Objects of 256 bytes, as in the paper. Of its traces none is here: webmail (arc_p3 in its place), an object store of IBM's (scarab_recs), CloudPhysics' \
             (the public two hours of one disk), Twitter's (loads with the published statistics of clusters). A trace of few keys is run by several tenants, each with keys of \
             its own. The paper warms up for 10 seconds and repeats the trace for 20; here the first fifth is the warm-up, and the trace runs once. CliqueMap \
             has one core at the memory node, and room for the same share of the objects, each with its record and its entries. The paper's text says that Ditto outperforms CliqueMap in all \
             workloads, for higher hit ratios and a higher limit of throughput; that CliqueMap is limited by the memory node's processor on Twitter's, where hit ratios are high; and that on webmail \
             CM-LRU has a throughput comparable to Ditto's, as hit ratios limit all of them. Of numbers it prints that Ditto has up to {TIMES_MOST} times CliqueMap's throughput on real workloads, and that \
             learning costs less than 5 % of the throughput where hit ratios are the same.",
            told.join("; "),
        ),
        figures,
    })
}

/// The systems on one load. Ditto's come first.
struct OfLoad {
    load: &'static str,
    systems: Swept<Measured>,
    of_ditto: usize,
}

impl OfLoad {
    /// CliqueMap's names and lines.
    fn cliquemaps(&self) -> impl Iterator<Item = (&String, &Vec<Measured>)> {
        self.systems.names().iter().zip(self.systems.lines()).skip(self.of_ditto)
    }

    /// What `value` says of Ditto and a line of CliqueMap, for each cache.
    fn beside_ditto(&self, cliquemap: &[Measured], value: fn(&Measured, &Measured) -> f64) -> Vec<f64> {
        self.systems.lines()[0].iter().zip(cliquemap).map(|(ditto, cliquemap)| value(ditto, cliquemap)).collect()
    }
}

/// How far both experts together are from the better one alone.
fn distance(by_load: &[OfLoad]) -> Figure {
    let places = by_load[0].systems.places();
    let series = by_load.iter().map(|OfLoad { load, systems, .. }| {
        let shares = (0..places.count()).map(|place| {
            let hits = |line: usize| systems.lines()[line][place].hit_percent();
            let better = hits(LRU).max(hits(LFU));
            // Where neither expert hits, both together are no worse.
            if better > 0.0 { hits(0) * 100.0 / better } else { 100.0 }
        });
        places.line(*load, shares)
    });
    places.figure("Hit ratio over the better expert's alone", ("share", "%"), series)
}

/// Ditto's throughput over a baseline's.
fn times(ditto: &Measured, cliquemap: &Measured) -> f64 {
    ditto.mops() / cliquemap.mops().max(1e-9)
}

/// Percent of the time that the memory node's processor was busy.
fn busy_percent(_: &Measured, cliquemap: &Measured) -> f64 {
    cliquemap.traffic.processors_busy_per_mille().unwrap_or(0) as f64 / 10.0
}

/// What `value` says of Ditto and CliqueMap, for each load and policy.
fn of_cliquemap(by_load: &[OfLoad], title: &str, y: (&str, &str), value: fn(&Measured, &Measured) -> f64) -> Figure {
    let places = by_load[0].systems.places();
    let lines = by_load.iter().flat_map(|of| {
        let load = of.load;
        of.cliquemaps().map(move |(name, line)| places.line(format!("{load}, {name}"), of.beside_ditto(line, value)))
    });
    places.figure(title, y, lines)
}

/// The most that Ditto has over CliqueMap on each load and on all. The paper's is of all.
fn most(by_load: &[OfLoad], is_quick: bool) -> Figure {
    let places = Places::named("load", by_load.iter().map(|of| of.load).chain(["all"]));
    let most = |of: &OfLoad| of.cliquemaps().flat_map(|(_, line)| of.beside_ditto(line, times)).fold(0.0, f64::max);
    let each: Vec<f64> = by_load.iter().map(most).collect();
    let all = each.iter().copied().fold(0.0, f64::max);
    let printed = each.iter().map(|_| None).chain([(!is_quick).then_some(TIMES_MOST)]);
    let line = places.line("throughput", each.iter().copied().chain([all])).beside(printed);
    places
        .factors("The most that Ditto has over CliqueMap", "times higher", [line])
        .from("Ditto, abstract and section 1")
}
