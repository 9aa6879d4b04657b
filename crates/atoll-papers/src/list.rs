//! The list of experiments. To add one: a file with its `measure`, and a line here.

use crate::bench::{Experiment, in_flight};
use crate::{difache, ditto, forge};
use atoll_lab::LabError;

/// Makes the list: of each experiment its name, its module, the seconds of a processor that a quick
/// and a full run take, and what it shows.
macro_rules! experiments {
    ($($name:literal, $module:path, $quick_s:literal, $full_s:literal: $what:literal;)*) => {
        /// All experiments, in the order of `atoll lab list`.
        pub const ALL: &[Experiment] = &[$({
            use $module as module;
            Experiment::new($name, $what, [$quick_s, $full_s], module::measure)
        },)*];
    };
}

experiments! {
    "forge-fig2", forge::fig2, 1, 3: "FORGE Fig. 2: rates of verbs, and READs beside atomics, in host memory and on the NIC";
    "forge-fig3", forge::fig3, 15, 1250: "FORGE Fig. 3: traffic by purpose, YCSB and a load like Twitter's, 10 % cache, 16 threads";
    "forge-fig5", forge::fig5, 1, 4: "FORGE Fig. 5: similarity of objects in a group, by how groups are made";
    "forge-fig13", forge::fig13, 45, 1650: "FORGE Fig. 13: YCSB A to E, 20 % cache, 16 to 256 threads; YCSB C beside the model's limits";
    "forge-fig14", forge::fig14, 20, 1650: "FORGE Fig. 14: real traces, objects of one size, 5, 10 and 20 % cache, 128 threads";
    "forge-fig15", forge::fig15, 20, 2000: "FORGE Fig. 15: objects of real sizes, 5, 10 and 20 % cache, 128 threads";
    "forge-fig16", forge::fig16, 25, 1700: "FORGE Fig. 16: 1 to 3 memory nodes, 100 to 300 threads, objects of real sizes, 20 % cache";
    "forge-fig17", forge::fig17, 10, 1500: "FORGE Fig. 17: group size, and miss penalties of 100 and 500 us, 20 % cache, 128 threads";
    "forge-fig18", forge::fig18, 8, 450: "FORGE Fig. 18: its techniques one by one, YCSB A to E, 20 % cache, 256 threads";
    "in-flight", in_flight, 10, 400: "Throughput and latency by operations under way per thread, 1 to 64, of 4 to 64 threads";
    "ditto-fig1", ditto::fig1, 1, 5: "Ditto Fig. 1: a Redis cluster that gets twice the nodes and gives them back, YCSB C, 512 clients";
    "ditto-fig2", ditto::fig2, 1, 125: "Ditto Fig. 2: a store that tracks nothing and LRU lists, YCSB C, 1 to 256 clients, no misses";
    "ditto-fig3", ditto::fig3, 1, 2: "Ditto Fig. 3: exact LRU and LFU while clients move between two applications";
    "ditto-fig4", ditto::fig4, 2, 12: "Ditto Fig. 4: exact LRU and LFU by the size of the cache, on all real traces";
    "ditto-fig5", ditto::fig5, 2, 15: "Ditto Fig. 5: exact LRU and LFU by the number of clients, on all real traces";
    "ditto-fig13", ditto::fig13, 1, 10: "Ditto Fig. 13: 32 clients join 32 others and leave; a quarter of memory goes and returns";
    "ditto-fig14", ditto::fig14, 1, 200: "Ditto Fig. 14: YCSB A to D on Ditto and CliqueMap, YCSB C on Shard-LRU, 1 to 256 clients, no misses";
    "ditto-fig15", ditto::fig15, 1, 80: "Ditto Fig. 15: CliqueMap with 1 to 32 cores at the memory node, beside Ditto, 256 clients";
    "ditto-fig16", ditto::fig16, 7, 850: "Ditto Fig. 16, 17: real traces, LRU and LFU together and alone, CliqueMap, 500 us a miss";
    "ditto-fig18", ditto::fig18, 3, 140: "Ditto Fig. 18: hit ratios over random eviction's, LRU and LFU together and alone, 10 % cache";
    "ditto-fig19", ditto::fig19, 2, 70: "Ditto Fig. 19: four phases, friendly to LRU and to LFU in turn, 500 us a miss, 16 clients";
    "ditto-fig20", ditto::fig20, 2, 165: "Ditto Fig. 20: hit ratios over Ditto-LRU's, by the part of clients with a load friendly to LRU";
    "ditto-fig21", ditto::fig21, 2, 130: "Ditto Fig. 21: hit ratios over Ditto-LRU's while clients join, 16 to 160, a block trace, 20 % cache";
    "ditto-fig22", ditto::fig22, 2, 105: "Ditto Fig. 22: hit ratios while the cache grows from 10 to 40 %, a block trace, 64 clients";
    "ditto-fig23", ditto::fig23, 4, 160: "Ditto Fig. 23: twelve policies on a block trace, 10 % cache, 64 clients";
    "ditto-fig24", ditto::fig24, 3, 75: "Ditto Fig. 24: without one technique after the other, two block traces, 64 clients";
    "ditto-fig25", ditto::fig25, 1, 125: "Ditto Fig. 25: size of the frequency-counter cache, YCSB C, 256 clients";
    "difache-fig1", difache::fig1, 1, 60: "DiFache Fig. 1: near caches and a central manager by compute nodes, a load like Twitter's cluster 4";
    "difache-fig4", difache::fig4, 1, 60: "DiFache Fig. 4 (right): of what the latency of a central manager consists, by compute nodes";
    "difache-fig10", difache::fig10, 1, 300: "DiFache Fig. 10: near caches by clients, nodes, read ratio, skew, size and number of objects";
    "difache-fig11", difache::fig11, 1, 300: "DiFache Fig. 11: near caches on loads like those of Twitter's 54 clusters, 128 clients";
    "difache-fig12", difache::fig12, 1, 60: "DiFache Fig. 12: latencies and verbs by kind of access, a load like Twitter's cluster 4, 128 clients";
    "difache-fig13", difache::fig13, 1, 120: "DiFache Fig. 13: all nodes told and owners told, 8 to 64 nodes";
    "difache-fig15", difache::fig15, 1, 60: "DiFache Fig. 15: throughput while compute nodes and the memory node end and come back";
}

/// The line of an experiment in the list, for people.
pub(crate) fn line(experiment: &Experiment) -> String {
    format!("{:<14}{}", experiment.name, experiment.what)
}

/// The experiment of that name.
pub fn named(name: &str) -> Result<Experiment, LabError> {
    let unknown = || LabError::Options(format!("there is no experiment {name}: see atoll lab list"));
    ALL.iter().find(|experiment| experiment.name == name).copied().ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Baseline, Options};
    use atoll_lab::report;
    use std::path::{Path, PathBuf};

    /// All baselines stand beside FORGE in the cheapest figure. In each other figure one does, or
    /// they would take minutes.
    fn quick(index: usize, traces: PathBuf) -> Options {
        let baselines = match ALL[index].name {
            "forge-fig14" => Baseline::ALL.to_vec(),
            _ => vec![Baseline::ALL[index % Baseline::ALL.len()]],
        };
        Options { quick: true, traces, workers: 2, baselines, ..Options::default() }
    }

    #[test]
    fn every_experiment_runs_and_its_results_can_be_shown() {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
        let found =
            beside.is_dir().then_some(beside).ok_or("the shared traces are not beside this checkout".to_owned());
        let Some(traces) = atoll_sim::required("traces", found) else { return };
        let folder = tempfile::tempdir().unwrap();
        for (index, experiment) in ALL.iter().enumerate() {
            let begun = std::time::Instant::now();
            let result = experiment.run(&quick(index, traces.clone())).unwrap();
            println!("{}: {:.1} s", experiment.name, begun.elapsed().as_secs_f64());
            assert_eq!(result.name, experiment.name);
            report::write(folder.path(), &result).unwrap();
            let text = report::text::render(&result);
            let mut points = result.figures.iter().flat_map(|figure| &figure.series).flat_map(|series| &series.points);
            assert!(points.all(|point| point.y.is_finite() && point.y >= 0.0), "{text}");
            assert!(text.contains(experiment.name));
            assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        }
        assert!(folder.path().join(report::PAGE_FILE).is_file());
    }

    #[test]
    fn names_are_told_apart_and_an_unknown_one_is_refused() {
        let mut names: Vec<_> = ALL.iter().map(|experiment| experiment.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|experiment| line(experiment).len() <= 120));
        assert!(named("forge-fig99").err().unwrap().to_string().contains("atoll lab list"));
    }
}
