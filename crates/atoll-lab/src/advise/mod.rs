//! `atoll advise`: the hit ratio of a load by capacity and engine, and what a larger cache would
//! bring.
//!
//! | source | what is learnt |
//! |---|---|
//! | a trace, or a generated load | every engine's miniatures see the requests |
//! | the address of a Redis server | MONITOR shows the requests of some seconds, and the miniatures see them |
//! | the address of an Atoll server | its clients' miniatures have the curve of its engine: INFO shows it |
//!
//! | module | concept |
//! |---|---|
//! | [`models`] | miniatures of the engines at several capacities |
//! | `server` | what a running server says |
//! | `monitor` | the requests in the lines of MONITOR |
//! | `text` | advice for people |
//!
//! Every request is a look-up that inserts after a miss; a write inserts and is no look-up. An
//! expiry or a removal changes nothing. Sizes count by their mean.

pub mod models;
mod monitor;
mod server;
mod text;

use crate::LabError;
use crate::output;
use crate::progress::Progress;
use crate::report::{Axis, Figure, Point as Place, Series};
use crate::trace::{Effect, Request, Trace};
use atoll::size::parse_bytes;
use models::Models;
use rapidhash::RapidHashSet;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a record has besides key and value.
const HEADER_BYTES: u64 = 32;
/// Capacities of a load whose capacity is not given, in percent of its objects.
const PERCENTS: [u64; 7] = [1, 2, 5, 10, 20, 40, 80];
/// Capacities around one that is given, in quarters of it.
const QUARTERS: [u64; 5] = [1, 2, 4, 8, 16];
/// By so many points `ditto` must be better than `forge` on average, to be named instead.
const ENGINE_MARGIN_PP: f64 = 0.5;
/// Requests between two steps of the progress bar.
const STRETCH: u64 = 1 << 14;

/// Say which engine and capacity fit a load: the hit ratio by both
///
/// The load is a trace, or what a running server is asked. Of a Redis server, MONITOR shows the
/// requests, which slows it down for that time. An Atoll server knows its own curve.
#[derive(Clone, Debug, clap::Args)]
pub struct AdviseCommand {
    /// A trace file, zipf:KEYS,THETA,REQUESTS, or the address of a server: HOST:PORT
    source: String,
    /// The capacity that you have, such as 64MiB; without it parts of all objects
    #[arg(long, value_name = "B", value_parser = parse_bytes)]
    capacity: Option<u64>,
    /// For how many seconds to watch a Redis server
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Seed of a generated load
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also draw the curve into this file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The hit ratios at one capacity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The capacity in bytes.
    pub capacity_bytes: u64,
    /// The same in objects of the mean size, where that is known.
    pub capacity_objects: Option<u64>,
    /// The hit ratio of each engine.
    pub hit_ratios: BTreeMap<String, f64>,
}

/// What is known of a load. Its JSON form is for scripts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The trace or the address.
    pub source: String,
    /// Where the numbers come from, for people.
    pub learnt_from: String,
    /// Requests that were seen.
    pub requests: u64,
    /// Different objects among them, where that is known.
    pub objects: Option<u64>,
    /// Mean bytes of an object, with key and header, where that is known.
    pub object_bytes_mean: Option<u64>,
    /// The capacity that the load has now, where it has one.
    pub capacity_bytes: Option<u64>,
    /// The curve, from the smallest capacity to the largest.
    pub points: Vec<Point>,
    /// The engine that fits, where several were compared.
    pub engine: Option<String>,
}

impl AdviseCommand {
    /// Finds the advice and prints it.
    pub fn run(self) -> Result<(), LabError> {
        let is_trace = self.source.starts_with("zipf:") || Path::new(&self.source).exists();
        let advice = match is_trace {
            true => of_trace(&self.source, self.seed, self.capacity)?,
            false => {
                let address = self.source.strip_prefix("redis://").unwrap_or(&self.source).trim_end_matches('/');
                if address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
                    let what = format!("{} is neither a file nor HOST:PORT: name a trace or a server", self.source);
                    return Err(LabError::Options(what));
                }
                server::advice(address, Duration::from_secs(self.seconds), self.capacity)?
            }
        };
        if let Some(path) = &self.plot {
            let svg = crate::report::svg(&figure(&advice)).map_err(|error| LabError::Failed(error.to_string()))?;
            std::fs::write(path, svg).map_err(|source| LabError::System { what: "write the plot", source })?;
        }
        output::print(self.json, &advice, text::render);
        Ok(())
    }
}

/// The curve of a trace. It is read twice: for the number of its objects, then for their order.
pub fn of_trace(source: &str, seed: u64, capacity_bytes: Option<u64>) -> Result<Advice, LabError> {
    let (mut requests, mut bytes, mut objects) = (0, 0, RapidHashSet::default());
    let mut request = Request::default();
    let mut trace = Trace::open(source, seed)?;
    while trace.read(&mut request)? {
        requests += 1;
        if objects.insert(request.key_number()) {
            bytes += request.value_bytes + u64::from(request.key_bytes) + HEADER_BYTES;
        }
    }
    let count = objects.len().max(1) as u64;
    drop(objects);
    let mean = (bytes / count).max(1);
    let capacities = match capacity_bytes {
        Some(bytes) => QUARTERS.map(|quarters| bytes * quarters / 4 / mean).to_vec(),
        None => PERCENTS.map(|percent| count * percent / 100).to_vec(),
    };
    let mut models = Models::new(capacities, requests, Some(count));
    let mut trace = Trace::open(source, seed)?;
    let progress = Progress::new(requests, "advise");
    let mut seen = 0;
    while trace.read(&mut request)? {
        see(&mut models, request.operation.effect(), &request.key);
        seen += 1;
        if seen % STRETCH == 0 {
            progress.set(seen);
        }
    }
    Ok(Advice {
        source: source.to_owned(),
        learnt_from: "miniatures on a sample of all requests".to_owned(),
        requests,
        objects: Some(count),
        object_bytes_mean: Some(mean),
        capacity_bytes,
        engine: models.engine(),
        points: models.points(mean),
    })
}

/// Shows one request to the models.
fn see(models: &mut Models, effect: Effect, key: &[u8]) {
    let hash = rapidhash::v3::rapidhash_v3(key);
    match effect {
        Effect::Look => models.read(hash),
        Effect::Write | Effect::WriteIfAbsent => models.written(hash),
        Effect::Remove => {}
    }
}

/// The curve as a plot.
fn figure(advice: &Advice) -> Figure {
    let names: std::collections::BTreeSet<&String> =
        advice.points.iter().flat_map(|point| point.hit_ratios.keys()).collect();
    let place = |name: &String, point: &Point| {
        let y = 100.0 * point.hit_ratios.get(name)?;
        Some(Place { x: point.capacity_bytes as f64 / f64::from(1 << 20), y, ..Place::default() })
    };
    let series = |name: &String| Series {
        name: name.clone(),
        points: advice.points.iter().filter_map(|point| place(name, point)).collect(),
    };
    Figure {
        title: format!("Hit ratio by capacity: {}", advice.source),
        x: Axis { label: "capacity".to_owned(), unit: "MiB".to_owned(), logarithmic: true, ..Axis::default() },
        y: Axis { label: "hit ratio".to_owned(), unit: "%".to_owned(), ..Axis::default() },
        series: names.into_iter().map(series).collect(),
        ..Figure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_load_has_a_rising_curve_an_engine_and_a_plot() {
        let advice = of_trace("zipf:5000,0.9,60000", 1, None).unwrap();
        assert_eq!((advice.requests, advice.points.len()), (60_000, PERCENTS.len()));
        for engine in ["forge", "ditto"] {
            let curve: Vec<f64> = advice.points.iter().map(|point| point.hit_ratios[engine]).collect();
            assert!(curve.windows(2).all(|pair| pair[0] <= pair[1] + 0.01), "{engine}: {curve:?}");
            // 38 % of the requests are for the hottest hundredth of the keys.
            assert!(curve[0] < 0.38 && curve[PERCENTS.len() - 1] > 0.7, "{engine}: {curve:?}");
        }
        assert!(advice.engine.is_some() && text::render(&advice).contains("The engine that fits"));
        assert!(crate::report::svg(&figure(&advice)).unwrap().contains("<svg"));
        // A capacity in bytes, around which the curve lies.
        let capacity = 1000 * advice.object_bytes_mean.unwrap();
        let around = of_trace("zipf:5000,0.9,60000", 1, Some(capacity)).unwrap();
        let objects: Vec<_> = around.points.iter().map(|point| point.capacity_objects.unwrap()).collect();
        assert_eq!(objects, [250, 500, 1000, 2000, 4000]);
        // Where all objects have room, only what comes for the first time is missed.
        let ample = of_trace("zipf:5000,0.9,60000", 1, Some(64 * capacity)).unwrap();
        let compulsory = 1.0 - ample.objects.unwrap() as f64 / ample.requests as f64;
        for ratio in ample.points.iter().flat_map(|point| point.hit_ratios.values()) {
            assert!((ratio - compulsory).abs() < 0.02, "{compulsory}: {:?}", ample.points);
        }
    }

    #[test]
    fn a_source_that_is_neither_file_nor_address_is_refused() {
        let command = AdviseCommand {
            source: "no-such-trace".to_owned(),
            capacity: None,
            seconds: 1,
            seed: 1,
            plot: None,
            json: false,
        };
        assert!(command.run().unwrap_err().to_string().contains("name a trace or a server"));
    }
}
