//! Ditto, Fig. 5: the number of clients at a time changes hit ratios.

use super::exact::{self, changing_percent, concurrent, hit_percent};
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::report::places::Places;

const CLIENTS: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const CACHE_PERCENT: usize = 10;
const REQUESTS_MAX: u64 = 300_000;
/// The trace that is drawn.
const DRAWN: &str = "arc_p3";
/// Of 80 % of the workloads the change is at most this: of LRU and of LFU.
const PRINTED_CHANGES: [f64; 2] = [60.0, 21.0];
const QUANTILE: f64 = 0.8;
/// "The best caching algorithms on 36 % of workload change".
const PRINTED_PERCENT: f64 = 36.0;
const SOURCE: &str = "Ditto, section 3.2";

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let traces = exact::real_traces(options.scaled(REQUESTS_MAX, 20_000), options)?;
    let hits = exact::by(&traces, &CLIENTS, options, |trace, clients, policy| {
        hit_percent(policy, trace.percent(CACHE_PERCENT), concurrent(&trace.keys, clients))
    })?;
    let changes = [0, 1].map(|policy| {
        let mut changes: Vec<f64> = hits.iter().map(|of| change(of.iter().map(|hits| hits[policy]))).collect();
        changes.sort_by(f64::total_cmp);
        changes
    });
    let parts =
        Places::named("share of the traces", (1..=traces.len()).map(|one| format!("{}", one * 100 / traces.len())));
    let spread =
        ["lru", "lfu"].into_iter().zip(&changes).map(|(name, changes)| parts.line(name, changes.iter().copied()));
    let spread = parts.figure("Change of the hit ratio", ("change", "%"), spread);
    let drawn = traces.iter().position(|trace| trace.name == DRAWN).unwrap_or(0);
    let clients = Places::numbers("clients", "", CLIENTS.map(|clients| clients as u32)).logarithmic();
    let line = |name: &str, policy: usize| clients.line(name, hits[drawn].iter().map(|of| of[policy]));
    let quantile =
        |changes: &Vec<f64>| changes[((changes.len() as f64 * QUANTILE).ceil() as usize).clamp(1, changes.len()) - 1];
    let all = Places::named("policy", ["lru", "lfu"]);
    let told = |printed: [f64; 2]| printed.map(|it| (!options.quick).then_some(it));
    let of_most = all.line("80 % of the traces", changes.each_ref().map(quantile)).beside(told(PRINTED_CHANGES));
    let share = Places::named("", ["share of the traces"]);
    let changing =
        share.line("traces", [changing_percent(&hits)]).beside([(!options.quick).then_some(PRINTED_PERCENT)]);
    Ok(Findings {
        what: format!(
            "{} real traces of at most {REQUESTS_MAX} requests, in place of the paper's 74 of Twitter's and FIU's; the exact policies in a cache of {CACHE_PERCENT} % of the objects. Each of so many clients \
             makes a part of the trace of its own, all in turn; the paper does not say how its clients share a trace. A change is the highest hit ratio less the lowest, over the highest.",
            traces.len(),
        ),
        figures: vec![
            spread,
            all.figure("The largest change of 80 % of the traces", ("change", "%"), [of_most]).from(SOURCE),
            clients.figure(
                format!("Hit ratio, {}", traces[drawn].name),
                ("hit ratio", "%"),
                [line("lru", 0), line("lfu", 1)],
            ),
            share
                .figure("Traces whose better policy changes with the clients", ("share", "%"), [changing])
                .from(SOURCE),
        ],
    })
}

/// The highest less the lowest, in percent of the highest.
fn change(hits: impl Iterator<Item = f64>) -> f64 {
    let (low, high) = hits.fold((f64::MAX, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
    if high > 0.0 { (high - low) * 100.0 / high } else { 0.0 }
}
