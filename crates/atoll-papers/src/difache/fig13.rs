//! DiFache, Fig. 13 (left): telling all nodes beside telling owners.

use super::point::{Measured, Point, measure_all};
use super::systems::{COMPUTE_NODES, THETA, skewed, statements, testbed};
use crate::bench::sweep::Swept;
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::report::places::Places;
use atoll_near::Protocol;

/// Of a line its name, and from how many nodes on owners are told.
const LINES: [(&str, u8); 2] = [("all", u8::MAX), ("owners", 1)];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (objects, requests) = options.scaled((5_000, 1_000_000), (200, 8_000));
    let nodes: Vec<u16> = options.scaled(vec![8, 16, 32, 48, 64], vec![8]);
    let base = Point {
        protocol: Protocol::DifacheNoAc,
        is_client_a_node: true,
        ..testbed(skewed(objects, THETA, requests, options)?, options)
    };
    let line = |owners_from| nodes.iter().map(move |nodes| (*nodes, owners_from));
    let points: Vec<Point> = LINES
        .iter()
        .flat_map(|(_, owners_from)| line(*owners_from))
        .map(|(clients, owners_from)| Point { clients, owners_from, ..base.clone() })
        .collect();
    let mut measured = measure_all(&points, options.workers)?.into_iter();
    let lines: Vec<Vec<Measured>> = LINES.iter().map(|_| measured.by_ref().take(nodes.len()).collect()).collect();
    let places = Places::numbers("nodes", "", nodes.iter().copied());
    let swept = Swept::new(places, LINES.iter().map(|(name, _)| (*name).to_owned()).collect(), lines);
    let all_over_owners = |place: usize| {
        let column = swept.column(place);
        column[0].mops() / column[1].mops().max(1e-9)
    };
    let up_to_32: Vec<f64> = (0..nodes.len()).filter(|place| nodes[*place] <= 32).map(all_over_owners).collect();
    let least = up_to_32.iter().copied().fold(f64::MAX, f64::min);
    let most = up_to_32.iter().copied().fold(0.0, f64::max);
    let figures = vec![
        statements(
            "What the paper's text says, of throughput up to 32 nodes",
            &[("all over owners, least", least, 1.23), ("all over owners, most", most, 1.77)],
        ),
        swept.figure("Throughput", ("throughput", "Mops/s"), Measured::mops),
        swept.figure("Fetch-and-adds to other nodes a write", ("verbs", ""), Measured::told_per_write),
    ];
    let what = format!(
        "difache-noac, {objects} objects of 1 KiB, 95 % reads, {requests} accesses. As in the paper, each client acts as a node, behind the NICs of {COMPUTE_NODES} compute nodes. The paper goes on to 128 \
         nodes, where owners are 3.05 times ahead; a directory of ours has 64 members."
    );
    Ok(Findings { what, figures })
}
