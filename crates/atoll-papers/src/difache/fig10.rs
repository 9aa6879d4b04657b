//! DiFache, Fig. 10: synthetic loads.

use super::point::{Measured, Point};
use super::systems::{
    CLIENTS_PER_NODE, CMCACHE, COMPUTE_NODES, DIFACHE, NO_AC, NONE, THETA, beside, figures, over, peak, skewed,
    statements, testbed,
};
use crate::bench::sweep::Swept;
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::report::places::Places;

/// What one panel varies.
struct Panel {
    name: &'static str,
    places: Places,
    points: Vec<Point>,
}

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (objects, requests) = options.scaled((20_000, 700_000), (500, 8_000));
    let load = |objects, theta| skewed(objects, theta, requests, options);
    let base = testbed(load(objects, THETA)?, options);
    let panels = [
        by_clients(&base, options),
        by_nodes(&base, options),
        by_reads(&base, options),
        by_theta(&base, options, |theta| load(objects, theta))?,
        by_size(&base, options),
        by_objects(&base, options, |objects| load(objects, THETA))?,
    ];
    let (mut all, mut swept) = (Vec::new(), Vec::new());
    for Panel { name, places, points } in panels {
        let measured = beside(places, &points, options)?;
        all.extend(figures(name, &measured));
        swept.push(measured);
    }
    let [a, b, c, d, e, f] = &swept[..] else { unreachable!("six panels") };
    let peaks = Places::named("system", ["none", "cmcache"]);
    let peaks_of = [peak(b, NONE), peak(b, CMCACHE)];
    let line = peaks.line("peak", peaks_of).beside([Some(11.05), Some(7.74)]);
    all.insert(0, peaks.figure("(b): peak throughput", ("throughput", "Mops/s"), [line]));
    all.insert(0, statements("What the paper's text says, of throughput", &text(a, b, c, d, e, f)));
    let what = format!(
        "{objects} objects in place of 1 million, {requests} accesses a point, of which a fifth warms up. Near caches hold all objects: the paper's run out of memory with 4 KiB and more, and with more \
         than 1 million objects, which is left out. In the paper each write to a cached object takes a look-up and a WRITE a node; ours takes one fetch-and-add a node.",
    );
    Ok(Findings { what, figures: all })
}

/// The statements of section 7.1, with ours and the paper's.
fn text(
    a: &Swept<Measured>,
    b: &Swept<Measured>,
    c: &Swept<Measured>,
    d: &Swept<Measured>,
    e: &Swept<Measured>,
    f: &Swept<Measured>,
) -> Vec<(&'static str, f64, f64)> {
    let most = |values: Vec<f64>| values.into_iter().fold(0.0, f64::max);
    let least = |values: Vec<f64>| values.into_iter().fold(f64::MAX, f64::min);
    let reads = over(c, DIFACHE, NONE);
    let no_ac_by_theta = over(d, NO_AC, NONE);
    let central = over(c, CMCACHE, NONE);
    let at_peak = b.lines()[CMCACHE].iter().map(Measured::mops).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    vec![
        ("(a) difache over none, most", most(over(a, DIFACHE, NONE)), 1.84),
        ("(b) difache over none, at the peaks", peak(b, DIFACHE) / peak(b, NONE).max(1e-9), 1.86),
        ("(b) difache over cmcache, most", most(over(b, DIFACHE, CMCACHE)), 4.68),
        ("(b) compute nodes at the peak of cmcache", at_peak.map_or(0.0, |(place, _)| place as f64 + 1.0), 3.0),
        ("(c) difache over none, reads only", reads[reads.len() - 1], 6.14),
        ("(c) difache over none, 99 % reads", reads[reads.len() - 2], 3.85),
        ("(c) cmcache over none, 99 % reads", central[central.len() - 2], 1.6),
        ("(c) cmcache over none, least", least(central), 0.339),
        ("(c) difache-noac over none, least", least(over(c, NO_AC, NONE)), 0.25),
        ("(d) difache over none, least", least(over(d, DIFACHE, NONE)), 1.79),
        ("(d) difache-noac over none, least skew", no_ac_by_theta[0], 2.33),
        ("(d) difache-noac over none, most skew", no_ac_by_theta[no_ac_by_theta.len() - 1], 0.93),
        ("(e) difache over none, most", most(over(e, DIFACHE, NONE)), 3.88),
        ("(e) difache over difache-noac, most", most(over(e, DIFACHE, NO_AC)), 2.13),
        ("(e) difache over cmcache, most", most(over(e, DIFACHE, CMCACHE)), 5.07),
        ("(f) difache over none, least", least(over(f, DIFACHE, NONE)), 1.52),
    ]
}

fn by_clients(base: &Point, options: &Options) -> Panel {
    let clients = options.scaled(vec![1, 2, 4, 8, CLIENTS_PER_NODE], vec![2]);
    let points = clients.iter().map(|clients| Point { compute_nodes: 1, clients: *clients, ..base.clone() });
    Panel {
        name: "(a) Clients on one compute node",
        points: points.collect(),
        places: Places::numbers("clients", "", clients),
    }
}

fn by_nodes(base: &Point, options: &Options) -> Panel {
    let nodes = options.scaled((1..=COMPUTE_NODES).collect(), vec![2]);
    let point = |nodes: &u16| Point { compute_nodes: *nodes, clients: nodes * CLIENTS_PER_NODE, ..base.clone() };
    Panel {
        name: "(b) Compute nodes of 16 clients",
        points: nodes.iter().map(point).collect(),
        places: Places::numbers("compute nodes", "", nodes),
    }
}

fn by_reads(base: &Point, options: &Options) -> Panel {
    let percent = options.scaled(vec![0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0], vec![50.0, 100.0]);
    let point = |percent: &f64| Point { read_percent: Some(*percent), ..base.clone() };
    Panel {
        name: "(c) Read ratio",
        points: percent.iter().map(point).collect(),
        places: Places::numbers("reads", "%", percent),
    }
}

fn by_theta(
    base: &Point,
    options: &Options,
    load: impl Fn(f64) -> Result<std::sync::Arc<dyn atoll_lab::load::Load>, LabError>,
) -> Result<Panel, LabError> {
    let thetas = options.scaled(vec![0.5, 0.7, 0.9, 0.99, 1.1], vec![0.99]);
    let point = |theta: &f64| Ok(Point { load: load(*theta)?, ..base.clone() });
    Ok(Panel {
        name: "(d) Skew",
        points: thetas.iter().map(point).collect::<Result<_, LabError>>()?,
        places: Places::numbers("Zipf's exponent", "", thetas),
    })
}

fn by_size(base: &Point, options: &Options) -> Panel {
    let bytes: Vec<u32> = options.scaled(vec![64, 256, 1024, 4096, 8192], vec![256]);
    let point = |bytes: &u32| Point { object_bytes: Some(*bytes), ..base.clone() };
    Panel {
        name: "(e) Object size",
        points: bytes.iter().map(point).collect(),
        places: Places::numbers("object", "bytes", bytes).logarithmic(),
    }
}

fn by_objects(
    base: &Point,
    options: &Options,
    load: impl Fn(u64) -> Result<std::sync::Arc<dyn atoll_lab::load::Load>, LabError>,
) -> Result<Panel, LabError> {
    let objects: Vec<u32> = options.scaled(vec![1_000, 5_000, 20_000, 80_000], vec![100]);
    let point = |objects: &u32| Ok(Point { load: load((*objects).into())?, ..base.clone() });
    Ok(Panel {
        name: "(f) Number of objects",
        points: objects.iter().map(point).collect::<Result<_, LabError>>()?,
        places: Places::numbers("objects", "", objects).logarithmic(),
    })
}
