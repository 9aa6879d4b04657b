//! FORGE, Fig. 18: what each of its techniques is worth, one after the other.

use super::fig13::WORKLOADS;
use crate::bench::ablation::{self, Technique};
use crate::bench::loads::YcsbShare;
use crate::bench::measured::Measured;
use crate::bench::setup::Setup;
use crate::bench::sizes::BLOCK_OBJECT_BYTES;
use crate::bench::sweep::{self, Metric, Sweep, Swept};
use crate::bench::{Findings, Options};
use atoll_baselines::forge_ablations::Variant;
use atoll_cache::forge::{ForgeOptions, Rule};
use atoll_fabric::Purpose;
use atoll_lab::LabError;
use atoll_lab::report::places::Places;
use atoll_lab::report::{Figure, Series};
use atoll_sim::network::traffic::Posted;

const CACHE_PERCENT: u64 = 20;

/// What is measured. The slowest operations of a thousand are included: they wait for a queue.
const METRICS: [Metric; 5] = {
    let [throughput, p50, p99, hit_ratio] = sweep::METRICS;
    [throughput, p50, p99, hit_ratio, ("P99.9 latency", "us", |measured| measured.latency_us(99.9))]
};

/// What is added step by step to the baseline, in the paper's order.
const TECHNIQUES: [Technique<Variant>; 5] = [
    ("+ lock-free index", |variant| variant.locked_index = false),
    ("+ contention-free FIFO", |variant| variant.locked_queues = false),
    ("+ lightweight regrouping", |variant| variant.whole_groups = false),
    ("+ hotness-aware queue", |variant| variant.plain_queue = false),
    ("+ lazy synchronization", |variant| variant.eager_hotness = false),
];

/// Of [`TECHNIQUES`] those that make evictions cheaper.
const REGROUPING: [usize; 2] = [1, 2];
/// The one that changes what is evicted.
const HOTNESS_QUEUE: usize = 3;

/// What the paper's section 6.7 prints of a technique's gain in one of [`METRICS`], as factors; of
/// a latency by how much lower it is.
struct Printed {
    metric: usize,
    technique: usize,
    /// Over all workloads.
    least: Option<f64>,
    most: Option<f64>,
    /// Of one workload.
    one: Option<(usize, f64)>,
}

const fn printed(
    metric: usize,
    technique: usize,
    least: Option<f64>,
    most: Option<f64>,
    one: Option<(usize, f64)>,
) -> Printed {
    Printed { metric, technique, least, most, one }
}

const PRINTED: [Printed; 10] = [
    // "21.5x", "6.7x" in YCSB A.
    printed(0, 0, None, None, Some((0, 21.5))),
    printed(1, 0, None, None, Some((0, 6.7))),
    // "23.1 %-57.5 %", "1.25-10.36x".
    printed(0, 1, Some(1.231), Some(1.575), None),
    printed(2, 1, Some(1.25), Some(10.36), None),
    // "32.6 %-55.8 %"; latencies cut by "20.0 %-65.2 % and 45.2 %-61.0 %".
    printed(0, 2, Some(1.326), Some(1.558), None),
    printed(1, 2, Some(1.0 / 0.800), Some(1.0 / 0.348), None),
    printed(2, 2, Some(1.0 / 0.548), Some(1.0 / 0.390), None),
    // "1.12-1.21x" in A to D, "1.06x" in E.
    printed(3, 3, None, Some(1.21), Some((4, 1.06))),
    // "Up to 18.9 % and 33.3 %".
    printed(0, 4, None, Some(1.189), None),
    printed(1, 4, None, Some(1.0 / 0.667), None),
];

/// What explains the gains: what evictions take, and what each does.
const COUNTERS: [Metric; 8] = [
    ("evictions' share of the verbs", "%", |measured| share(measured, |posted| posted.verbs)),
    ("evictions' share of the bytes", "%", |measured| share(measured, |posted| posted.bytes)),
    ("evictions' share of the round trips", "%", |measured| share(measured, |posted| posted.round_trips)),
    ("bytes of an evicted group", "", |measured| evicting(measured).bytes as f64 / groups(measured)),
    ("verbs of an evicted group", "", |measured| evicting(measured).verbs as f64 / groups(measured)),
    ("objects regrouped of a group", "", |measured| count(measured, "regroups") / groups(measured)),
    ("groups put back whole", "%", |measured| {
        let back = count(measured, "groups_reinserted");
        100.0 * back / (back + count(measured, "groups_evicted")).max(1.0)
    }),
    ("round trips of a request", "", |measured| {
        measured.traffic.of(Purpose::Request).round_trips as f64 / measured.requests.max(1) as f64
    }),
];

fn count(measured: &Measured, name: &str) -> f64 {
    measured.stats.iter().find(|(other, _)| *other == name).map_or(0.0, |(_, count)| *count as f64)
}

fn groups(measured: &Measured) -> f64 {
    count(measured, "groups_evicted").max(1.0)
}

/// All that was posted to make room.
fn evicting(measured: &Measured) -> Posted {
    let mut all = Posted::default();
    [Purpose::Eviction, Purpose::Collection].iter().for_each(|purpose| all.add(&measured.traffic.of(*purpose)));
    all
}

/// Evictions' share of all that was posted, in percent.
fn share(measured: &Measured, of: fn(&Posted) -> u64) -> f64 {
    let all: u64 = Purpose::ALL.iter().map(|purpose| of(&measured.traffic.of(*purpose))).sum();
    100.0 * of(&evicting(measured)) as f64 / all.max(1) as f64
}

/// Says of each technique from what to what it brought its counters, and at most what it could
/// gain.
fn conclude(swept: &Swept<Measured>, options: &Options) {
    let range = |values: &mut dyn Iterator<Item = f64>| {
        let (least, most) =
            values.fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        if least > most { (0.0, 0.0) } else { (least, most) }
    };
    let told = |step: usize, of: fn(&Measured) -> f64| {
        let (least, most) = range(&mut swept.lines()[step].iter().map(of));
        format!("{least:.1} to {most:.1}")
    };
    let reached = |technique: usize| {
        let pairs = swept.lines()[technique].iter().zip(&swept.lines()[technique + 1]);
        range(&mut pairs.map(|(before, after)| after.mops() / before.mops().max(1e-9)))
    };
    for (technique, (name, _)) in TECHNIQUES.iter().enumerate() {
        let (least, most) = reached(technique);
        let printed = PRINTED.iter().find(|printed| (printed.metric, printed.technique) == (0, technique));
        let printed = printed.and_then(|it| it.most.or(it.one.map(|(_, factor)| factor)));
        let printed = printed.map_or_else(String::new, |most| format!(", in the paper by up to {most:.2}"));
        let mut sentence = format!(
            "{name}: throughput rose by {least:.2} to {most:.2} times{printed}. A request's round trips went from {} to {}.",
            told(technique, COUNTERS[7].2),
            told(technique + 1, COUNTERS[7].2),
        );
        if REGROUPING.contains(&technique) {
            let shares = COUNTERS[..3].iter().map(|(_, _, of)| range(&mut swept.lines()[technique].iter().map(of)).1);
            let largest = shares.fold(0.0, f64::max) / 100.0;
            sentence += &format!(
                " Before it evictions had {} % of the verbs, {} % of the bytes and {} % of the round trips: without any of \
                 them throughput would rise by about {:.2} times at most. An evicted group took {} bytes, then {}, and {} verbs, then {}. {} of its objects were regrouped.",
                told(technique, COUNTERS[0].2),
                told(technique, COUNTERS[1].2),
                told(technique, COUNTERS[2].2),
                1.0 / (1.0 - largest).max(0.01),
                told(technique, COUNTERS[3].2),
                told(technique + 1, COUNTERS[3].2),
                told(technique, COUNTERS[4].2),
                told(technique + 1, COUNTERS[4].2),
                told(technique + 1, COUNTERS[5].2),
            );
        }
        if technique == HOTNESS_QUEUE {
            sentence += &format!(
                " Then {} % of the groups that came to the head were put back whole, and {} objects of a group were regrouped, before it {}.",
                told(technique + 1, COUNTERS[6].2),
                told(technique + 1, COUNTERS[5].2),
                told(technique, COUNTERS[5].2),
            );
        }
        options.record.conclude(sentence);
    }
}

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, requests, threads) = options.scaled((1_600_000, 2_000_000, 256), (10_000, 20_000, 8));
    let share = YcsbShare { keys, requests, cache_percent: CACHE_PERCENT };
    let mut sweep = Sweep::over(Places::named("workload", WORKLOADS));
    for (name, variant, choices) in steps() {
        let points = WORKLOADS.iter().map(|workload| step(&share, workload, threads, variant, &choices, options));
        sweep.line(name, points.collect::<Result<Vec<_>, _>>()?);
    }
    let swept = sweep.measure(options)?;
    let mut figures = swept.figures(&METRICS);
    figures.extend((0..METRICS.len()).map(|metric| gains(metric, &swept)));
    figures.extend(swept.figures(&COUNTERS));
    conclude(&swept, options);
    Ok(Findings {
        what: format!(
            "{keys} keys of {BLOCK_OBJECT_BYTES} bytes, {requests} requests, of YCSB E a twentieth, since a scan is fifty GETs; {threads} threads. All steps but the last are the paper's FORGE: \
             eight groups are evicted together, and what was hot in them becomes a group. The baseline locks the bucket in every change and the queue whenever a group \
             is put in or taken out, reads evicted groups whole and finds their objects by key, has one plain queue, and adds every hit to a counter in the pool. \
             Ours differ from the paper's baseline, of which it says no more, in this: our slot is one word, so that all that a lock of its bucket adds is the lock; a lock \
             that is held is looked at again after 0 to 1 us, up to 32 us after further looks; of a group that is read whole all buckets are read together. \
             Lazy synchronization includes counters in the NIC's own memory. The last step, which the paper does not have, is the engine that Atoll ships. \
             Gains are over the step before: of throughput and hit ratio the quotient, of latencies its inverse.",
        ),
        figures,
    })
}

/// A step's point on one workload.
fn step(
    share: &YcsbShare,
    workload: &str,
    threads: u16,
    variant: Variant,
    choices: &ForgeOptions,
    options: &Options,
) -> Result<Setup, LabError> {
    let base = share.point(workload, threads, options)?;
    let bytes = base.pool.capacity_bytes;
    let one = base.on_forge(choices.clone(), bytes);
    Ok(match choices.rule {
        Rule::Paper => one.ablated_forge_paper(variant),
        _ => one.ablated_forge(variant),
    })
}

/// Name, switches and choices of every step.
fn steps() -> Vec<(String, Variant, ForgeOptions)> {
    let of_paper = |(name, variant)| (name, variant, ForgeOptions::paper());
    let mut steps: Vec<_> =
        ablation::steps("baseline", Variant::BASELINE, &TECHNIQUES).into_iter().map(of_paper).collect();
    let whole = steps.last().expect("there are techniques").1;
    steps.push(("+ what Atoll adds".to_owned(), whole, ForgeOptions::default()));
    steps
}

/// Each technique's gain over the step before in one metric, on every workload, and the least and
/// the most of them.
fn gains(metric: usize, swept: &Swept<Measured>) -> Figure {
    let (label, _, value) = METRICS[metric];
    let is_latency = label.contains("latency");
    let gain = |technique: usize, workload: usize| {
        let value = |step: usize| value(&swept.lines()[step][workload]);
        let (before, after) = (value(technique), value(technique + 1));
        let (more, less) = if is_latency { (before, after) } else { (after, before) };
        if less > 0.0 { more / less } else { 0.0 }
    };
    let on_all = |technique| (0..WORKLOADS.len()).map(move |workload| gain(technique, workload));
    let told = |technique| PRINTED.iter().find(move |it| (it.metric, it.technique) == (metric, technique));
    let places = Places::named("technique", TECHNIQUES.map(|(name, _)| name));
    let line = |name: &str, gain: &dyn Fn(usize) -> f64, paper: &dyn Fn(&Printed) -> Option<f64>| -> Series {
        let techniques = 0..TECHNIQUES.len();
        let printed = techniques.clone().map(|technique| told(technique).and_then(paper));
        places.line(name, techniques.map(gain)).beside(printed)
    };
    let on_one = |(workload, name): (usize, &&str)| {
        let of_one = |told: &Printed| told.one.filter(|(one, _)| *one == workload).map(|(_, factor)| factor);
        line(name, &|technique| gain(technique, workload), &of_one)
    };
    let mut series: Vec<_> = WORKLOADS.iter().enumerate().map(on_one).collect();
    series.push(line("least", &|technique| on_all(technique).fold(f64::INFINITY, f64::min), &|told| told.least));
    series.push(line("most", &|technique| on_all(technique).fold(0.0, f64::max), &|told| told.most));
    let y = if is_latency { "times lower" } else { "times higher" };
    places.factors(format!("Gain in {label}"), y, series).from("FORGE, section 6.7")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measured::measure;

    #[test]
    fn every_step_saves_what_its_technique_is_for() {
        let options = Options { quick: true, ..Options::default() };
        let share = YcsbShare { keys: 10_000, requests: 20_000, cache_percent: CACHE_PERCENT };
        let measured = |variant: Variant| {
            measure(&step(&share, "ycsb-a", 8, variant, &ForgeOptions::paper(), &options).unwrap()).unwrap()
        };
        let posted = |measured: &Measured, purpose| measured.traffic.of(purpose);
        let full = measured(Variant::default());
        let eager = measured(Variant { eager_hotness: true, ..Variant::default() });
        assert!(posted(&eager, Purpose::Hotness).verbs >= eager.hits, "one for every hit");
        assert!(posted(&full, Purpose::Hotness).verbs < full.hits);
        let locked = measured(Variant { locked_index: true, ..Variant::default() });
        let a_request = |each: &Measured| posted(each, Purpose::Request).round_trips as f64 / each.requests as f64;
        // Half of them are changes, and so is what fills after misses.
        assert!(a_request(&locked) > a_request(&full) + 0.5, "{} and {}", a_request(&locked), a_request(&full));
        let per_eviction = |each: &Measured, count: &dyn Fn(&Measured) -> u64| {
            let groups = each.stats.iter().find(|(name, _)| *name == "groups_evicted").unwrap().1;
            count(each) as f64 / groups as f64
        };
        let bytes = |each: &Measured| posted(each, Purpose::Eviction).bytes;
        let whole = measured(Variant { whole_groups: true, ..Variant::default() });
        let (more, less) = (per_eviction(&whole, &bytes), per_eviction(&full, &bytes));
        assert!(more > less, "{more} and {less} bytes");
        let round_trips = |each: &Measured| posted(each, Purpose::Eviction).round_trips;
        let queued = measured(Variant { locked_queues: true, ..Variant::default() });
        let (more, less) = (per_eviction(&queued, &round_trips), per_eviction(&full, &round_trips));
        // The lock and a READ of the cursor, when a group is put in and when it is taken out.
        assert!(more > less + 2.0, "{more} and {less} round trips");
        let plain = measured(Variant { plain_queue: true, ..Variant::default() });
        assert_eq!(plain.stats.iter().find(|(name, _)| *name == "groups_reinserted").unwrap().1, 0);
    }

    #[test]
    fn the_conclusions_tell_of_each_technique_what_its_counters_were() {
        let options = Options { quick: true, ..Options::default() };
        let found = super::measure(&options).unwrap();
        let told = options.record.conclusions();
        for (name, _) in TECHNIQUES {
            assert!(told.iter().any(|sentence| sentence.starts_with(name)), "{name}: {told:#?}");
        }
        assert!(told.iter().any(|sentence| sentence.contains("of the bytes") && sentence.contains("at most")));
        let share = |title: &str| found.figures.iter().find(|figure| figure.title.contains(title)).unwrap();
        let points = share("share of the bytes").series.iter().flat_map(|series| &series.points);
        assert!(points.clone().any(|point| point.y > 0.0) && points.clone().all(|point| point.y < 100.0));
    }

    #[test]
    fn the_papers_form_writes_a_group_word_for_each_change_and_reads_buckets_anew() {
        let options = Options { quick: true, ..Options::default() };
        let share = YcsbShare { keys: 10_000, requests: 20_000, cache_percent: CACHE_PERCENT };
        let base = share.point("ycsb-a", 8, &options).unwrap();
        let bytes = base.pool.capacity_bytes;
        let rule = base.clone().on_forge(ForgeOptions::paper(), bytes).ablated_forge(Variant::default());
        let verbs = |point: &Setup| {
            let measured = measure(point).unwrap();
            measured.traffic.of(Purpose::Request).verbs as f64 / measured.requests as f64
        };
        // Half of the requests are changes.
        let (more, less) = (verbs(&base.on_forge_paper(bytes)), verbs(&rule));
        assert!(more > less + 0.4, "{more} and {less} verbs a request");
    }
}
