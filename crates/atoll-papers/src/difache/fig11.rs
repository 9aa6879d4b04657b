//! DiFache, Fig. 11: loads like those of Twitter's clusters.

use super::point::Point;
use super::systems::{CMCACHE, DIFACHE, NO_AC, NONE, beside, figures, over, statements, testbed};
use crate::bench::loads::real;
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::report::places::Places;

/// The clusters of the table: it has all but one.
const CLUSTERS: u32 = 54;
const ABSENT: u32 = 5;
/// Which of them a quick run has.
const QUICK: [u32; 2] = [4, 22];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let requests = options.scaled(300_000, 8_000);
    let clusters: Vec<u32> =
        options.scaled((1..=CLUSTERS).filter(|cluster| *cluster != ABSENT).collect(), QUICK.to_vec());
    let point = |cluster: &u32| {
        let load = real(&format!("twitter-{cluster}"), requests, options)?;
        Ok(Point { object_bytes: None, read_percent: None, ..testbed(load, options) })
    };
    let points: Vec<Point> = clusters.iter().map(point).collect::<Result<_, LabError>>()?;
    let swept = beside(Places::named("cluster", clusters.iter().map(u32::to_string)), &points, options)?;
    let ratios = over(&swept, DIFACHE, NONE);
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let least = ratios.iter().copied().fold(f64::MAX, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let over_central = over(&swept, DIFACHE, CMCACHE);
    let central_mean = over_central.iter().sum::<f64>() / over_central.len() as f64;
    let central_most = over_central.iter().copied().fold(0.0, f64::max);
    let over_no_ac = over(&swept, DIFACHE, NO_AC).into_iter().fold(0.0, f64::max);
    let mut all = vec![statements(
        "What the paper's text says, of throughput",
        &[
            ("difache over none, most", most, 8.16),
            ("difache over none, mean", mean, 1.85),
            ("difache over none, least", least, 1.0),
            ("difache over difache-noac, most", over_no_ac, 2.37),
            ("difache over cmcache, most", central_most, 10.83),
            ("difache over cmcache, mean", central_mean, 5.53),
        ],
    )];
    all.extend(figures("Twitter's clusters", &swept));
    let places = swept.places();
    let lines = [places.line("over none", ratios), places.line("over cmcache", over_central)];
    all.push(places.factors("Throughput of difache over that of", "factor", lines));
    let what = format!(
        "Loads with the statistics of {} of Twitter's clusters, {requests} requests each, of which a fifth warms up; the paper replays the first part of the traces themselves. The order of requests is \
         random: real objects have theirs within a short time. Objects have the sizes of the load's values. Anything that is no GET writes the whole object.",
        clusters.len()
    );
    Ok(Findings { what, figures: all })
}
