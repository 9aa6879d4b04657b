//! Ditto, Fig. 4: which of LRU and LFU hits more depends on the size of the cache.

use super::exact::{self, changing_percent, hit_percent};
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::report::places::Places;

/// Percent of a trace's objects.
const SIZES: [usize; 8] = [1, 2, 5, 10, 20, 30, 40, 60];
const REQUESTS_MAX: u64 = 300_000;
/// The trace that is drawn: storage of mail and home folders is not here, a server's disk is.
const DRAWN: &str = "arc_p3";
/// "The best algorithm changes in 22 of the 74 real-world workloads".
const PRINTED_PERCENT: f64 = 22.0 * 100.0 / 74.0;

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let traces = exact::real_traces(options.scaled(REQUESTS_MAX, 20_000), options)?;
    let hits = exact::by(&traces, &SIZES, options, |trace, percent, policy| {
        hit_percent(policy, trace.percent(percent), trace.keys.iter().copied())
    })?;
    let drawn = traces.iter().position(|trace| trace.name == DRAWN).unwrap_or(0);
    let sizes = Places::named("cache", SIZES.map(|percent| format!("{percent} %")));
    let line = |name: &str, policy: usize| sizes.line(name, hits[drawn].iter().map(|of| of[policy]));
    let all = Places::named("", ["share of the traces"]);
    let changing = all.line("traces", [changing_percent(&hits)]).beside([(!options.quick).then_some(PRINTED_PERCENT)]);
    Ok(Findings {
        what: format!(
            "{} real traces of at most {REQUESTS_MAX} requests, in place of the paper's 74 of Twitter's and FIU's; the exact policies. Of {}, the hit ratio at every size is drawn.",
            traces.len(),
            traces[drawn].name,
        ),
        figures: vec![
            sizes.figure(
                format!("Hit ratio, {}", traces[drawn].name),
                ("hit ratio", "%"),
                [line("lru", 0), line("lfu", 1)],
            ),
            all.figure("Traces whose better policy changes with the size", ("share", "%"), [changing])
                .from("Ditto, section 3.2"),
        ],
    })
}
