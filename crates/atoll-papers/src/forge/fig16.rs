//! FORGE, Fig. 16: more memory nodes, more threads.

use super::fig15::{LARGE, sized};
use super::versus::{self, Printed, Versus};
use crate::bench::measured::Measured;
use crate::bench::sizes::COMPUTE_NODES;
use crate::bench::sweep::{Sweep, Swept};
use crate::bench::{Baseline, Findings, Options};
use atoll_lab::LabError;
use atoll_lab::report::places::Places;
use atoll_lab::report::{Figure, Series};

const CACHE_PERCENT: u64 = 20;
const THREADS: [u16; 3] = [100, 200, 300];
const MEMORY_NODES: [u32; 3] = [1, 2, 3];
/// A full run asks for the first of so many parts of the load. Full groups for 300 threads need so
/// many keys that the whole load has millions of requests.
const PARTS: u64 = 6;

/// Over GLCache-DM, its best baseline.
const PRINTED: [Printed; 1] = [Printed {
    over: &[Baseline::Glcache],
    source: "FORGE, section 6.5",
    ranges: [Some((1.54, 2.02)), None, None, None],
    means: [None; 4],
}];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let threads = options.scaled(THREADS, [2, 4, 6]);
    let load = sized(LARGE, threads[2], CACHE_PERCENT, options)?.first_of(PARTS, options);
    let mut sweep = Sweep::over(Places::named("threads", threads.map(|threads| threads.to_string())));
    for nodes in MEMORY_NODES {
        let name = if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") };
        sweep.line(name, threads.map(|threads| load.point(threads, CACHE_PERCENT, options).spread(nodes)));
    }
    let versus = versus::measure(sweep, &PRINTED, options)?;
    let mut figures = versus.all.clone();
    figures.push(over_one_node(&versus));
    figures.push(busy_home(&versus.forms[0], threads));
    figures.extend(versus.gains());
    Ok(Findings {
        what: format!(
            "{}, in place of the paper's Meta workload. The cache has the same size on one node and on three. \
             Of a part of a load, the keys and the cache's share are those of the whole load. \
             The paper's text prints no absolute number of this figure, and has no Ditto in it, whose prototype knows one memory node; ours knows several. The paper's threads share cores beyond 156 (Hyper-Threading); these do not.",
            load.what_with_sizes(),
        ),
        figures,
    })
}

/// Each system's throughput over its own on one node.
fn over_one_node(versus: &Versus) -> Figure {
    let gains = |swept: &Swept<Measured>| -> Vec<Series> {
        let lines = swept.names().iter().zip(swept.lines());
        let of_line = |(name, line): (&String, &Vec<Measured>)| {
            let ratios = line.iter().zip(&swept.lines()[0]).map(|(more, one)| more.mops() / one.mops());
            swept.places().line(name.clone(), ratios)
        };
        lines.map(of_line).collect()
    };
    let series = versus.systems().flat_map(|(_, swept)| gains(swept));
    versus.forms[0].places().figure("Throughput over that of one memory node", ("ratio", ""), series)
}

/// How busy the paper's FORGE keeps each server of the home's NIC. The home is the first memory
/// node.
fn busy_home(forge: &Swept<Measured>, threads: [u16; 3]) -> Figure {
    let busy_of = |measured: &Measured| measured.traffic.nics[usize::from(COMPUTE_NODES)].busy_ps();
    let limits = busy_of(&forge.lines()[0][0]).map(|(limit, _)| format!("{limit:?}"));
    let servers = Places::named("server", limits);
    let lines = forge.names().iter().zip(forge.lines()).flat_map(|(name, line)| {
        let named =
            threads.iter().zip(line).map(move |(threads, measured)| (format!("{name}, {threads} threads"), measured));
        named.map(|(name, measured)| {
            let percent = busy_of(measured).map(|(_, ps)| ps as f64 / 10.0 / measured.traffic.ns.max(1) as f64);
            servers.line(name, percent)
        })
    });
    servers.figure("Time that each server of the home's NIC was busy", ("busy", "%"), lines)
}
