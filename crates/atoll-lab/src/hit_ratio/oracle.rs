//! What a folder says of its traces: the miss ratios of known algorithms, and which traces are
//! synthetic.

use crate::LabError;
use crate::trace::WHERE_TRACES_ARE;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The file of miss ratios in a folder of traces.
pub const MISS_RATIO_FILE: &str = "oracle_miss_ratio.csv";
const HEADER: &str = "trace,size_pct,cache_objects,algorithm,miss_ratio";

/// One cache size of one trace, with what the algorithms miss there.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The trace's name, without the endings of its file.
    pub trace: String,
    /// Cache size in percent of the trace's objects.
    pub size_pct: u32,
    /// The same in objects.
    pub cache_objects: u64,
    /// Whether the trace is of a real workload.
    pub real: bool,
    /// Misses over requests, by algorithm.
    pub miss_ratios: BTreeMap<String, f64>,
}

impl Point {
    /// What `algorithm` misses here; `None` if the oracle left it out.
    pub fn miss_ratio(&self, algorithm: &str) -> Option<f64> {
        self.miss_ratios.get(algorithm).copied()
    }
}

#[cfg(test)]
impl Point {
    /// A point on a real trace of which Belady misses a quarter.
    pub(super) fn missed_by_a_quarter(trace: &str, size_pct: u32) -> Self {
        let miss_ratios = [("Belady".to_owned(), 0.25)].into();
        Self { trace: trace.to_owned(), size_pct, cache_objects: 1000, real: true, miss_ratios }
    }
}

/// Reads what `folder` says of its traces, in the order of its file. Without a README all traces
/// count as real.
pub fn read(folder: &Path) -> Result<Vec<Point>, LabError> {
    let path = folder.join(MISS_RATIO_FILE);
    let wrong = |what: String| LabError::Folder { path: path.clone(), what };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        wrong(format!("{error}; give a folder that has this file beside its traces: {WHERE_TRACES_ARE}"))
    })?;
    let synthetic = synthetic_of(&std::fs::read_to_string(folder.join("README.md")).unwrap_or_default());
    parse(&text, &synthetic).map_err(wrong)
}

fn parse(text: &str, synthetic: &BTreeSet<String>) -> Result<Vec<Point>, String> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(format!("the first line is not {HEADER}"));
    }
    let mut points: Vec<Point> = Vec::new();
    for (index, line) in lines.enumerate() {
        let Some((trace, size_pct, cache_objects, algorithm, miss_ratio)) = fields(line) else {
            return Err(format!("line {} does not read as {HEADER}", index + 2));
        };
        let same = |point: &Point| (&*point.trace, point.size_pct) == (trace, size_pct);
        if !points.last().is_some_and(same) {
            let (real, miss_ratios) = (!synthetic.contains(trace), BTreeMap::new());
            points.push(Point { trace: trace.to_owned(), size_pct, cache_objects, real, miss_ratios });
        }
        if let Some(point) = points.last_mut() {
            point.miss_ratios.insert(algorithm.to_owned(), miss_ratio);
        }
    }
    Ok(points)
}

fn fields(line: &str) -> Option<(&str, u32, u64, &str, f64)> {
    let mut fields = line.split(',');
    let [trace, size_pct, cache_objects, algorithm, miss_ratio] = [(); 5].map(|()| fields.next());
    let miss_ratio: f64 = miss_ratio?.parse().ok()?;
    let valid = fields.next().is_none() && (0.0..=1.0).contains(&miss_ratio);
    valid.then_some((trace?, size_pct?.parse().ok()?, cache_objects?.parse().ok()?, algorithm?, miss_ratio))
}

/// The traces that a README's table of `| name | kind | ...` marks SYNTHETIC.
fn synthetic_of(readme: &str) -> BTreeSet<String> {
    let rows = readme.lines().filter_map(|line| line.strip_prefix('|')).map(|line| line.split('|').map(str::trim));
    rows.filter_map(|mut cells| {
        let (name, kind) = (cells.next()?, cells.next()?);
        kind.contains("SYNTHETIC").then(|| name.to_owned())
    })
    .collect()
}

/// The mean of what is missed beyond Belady's optimum, in percentage points, over the real points
/// of at least `objects_min` objects for which `miss_ratio` has a number; `None` if there are none.
pub fn mean_gap_pp<'p, F>(points: impl IntoIterator<Item = &'p Point>, objects_min: u64, miss_ratio: F) -> Option<f64>
where
    F: Fn(&Point) -> Option<f64>,
{
    let counted = points.into_iter().filter(|point| point.real && point.cache_objects >= objects_min);
    let gaps = counted.filter_map(|point| Some(100.0 * (miss_ratio(point)? - point.miss_ratio("Belady")?)));
    let (sum, count) = gaps.fold((0.0, 0_u32), |(sum, count), gap| (sum + gap, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn the_published_gaps_come_out() {
        let Some(folder) = fixtures::traces() else { return };
        let points = read(&folder).unwrap();
        assert_eq!(points.len(), 104);
        let real: BTreeSet<_> = points.iter().filter(|point| point.real).map(|point| &point.trace).collect();
        assert_eq!(real.len(), 22);
        assert_eq!(points.iter().filter(|point| point.real && point.cache_objects >= 1000).count(), 40);
        for (algorithm, published) in [("S3-FIFO", 8.57), ("LRU", 10.75), ("ARC", 9.02), ("Belady", 0.0)] {
            let gap = mean_gap_pp(&points, 1000, |point| point.miss_ratio(algorithm)).unwrap();
            assert!((gap - published).abs() < 0.005, "{algorithm}: {gap}");
        }
    }

    #[test]
    fn a_damaged_table_is_refused_with_its_line() {
        let parse = |rows: &str| parse(&format!("{HEADER}\n{rows}"), &BTreeSet::new());
        assert_eq!(parse("a,1,10,LRU,0.5\na,1,10,Belady,0.25\na,5,50,LRU,0.5").unwrap().len(), 2);
        for row in ["a,1,10,LRU", "a,1,10,LRU,0.5,6", "a,x,10,LRU,0.5", "a,1,10,LRU,1.5", "a,1,10,LRU,NaN", ""] {
            assert!(parse(&format!("a,1,10,LRU,0.5\n{row}\na,1,10,LRU,0.5")).unwrap_err().contains("line 3"), "{row}");
        }
        assert!(super::parse("a,1,10,LRU,0.5", &BTreeSet::new()).is_err());
    }

    #[test]
    fn synthetic_traces_are_found_in_the_readme() {
        let readme = "| name | kind |\n|---|---|\n| one | SYNTHETIC loop | x |\n| two | real SYNTHETICS? no |\n| three | disk |\n";
        assert!(synthetic_of(readme).contains("one") && !synthetic_of(readme).contains("three"));
    }
}
