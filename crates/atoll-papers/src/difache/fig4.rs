//! DiFache, Fig. 4 (right): of what the latency of a central manager's cache operations consists.

use super::scaling::{Parts, Scaling};
use super::systems::statements;
use crate::bench::{Findings, Options};
use atoll_lab::LabError;

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let scaling = Scaling::measure(options)?;
    let places = scaling.swept.places();
    let line = |name: &str, of: fn(&Parts) -> f64| places.line(name, scaling.parts.iter().map(of));
    let last = scaling.last();
    let figures = vec![
        statements(
            "What the paper's text says",
            &[("network and queue, of the median cache operation, most nodes", last.serialization(), 0.9)],
        ),
        places.figure(
            "(right) Median latency of cmcache's cache operations, by parts",
            ("latency", "us"),
            [
                line("network", |parts| parts.network_us),
                line("queue", |parts| parts.queue_us),
                line("the manager's work and data", |parts| parts.handled_us),
            ],
        ),
        places.figure(
            "(right) Network and queue",
            ("of the latency", "%"),
            [line("cmcache", |parts| 100.0 * parts.serialization())],
        ),
    ];
    let what = format!(
        "{} Cache operations are the reads that miss and the writes. The network's part is what a request and its \
         answer take without a queue or work. Work and data are the core's time and a READ of an object, measured by \
         one client alone. The rest is the queue: of the manager's cores, of the object, and of NICs. Fig. 4 (left) \
         is of Sherman, which is not here.",
        scaling.what
    );
    Ok(Findings { what, figures })
}
