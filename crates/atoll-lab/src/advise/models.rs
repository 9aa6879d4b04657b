//! Miniatures of the engines at several capacities.

use super::{ENGINE_MARGIN_PP, Point};
use atoll_cache::experts::{self, DEFAULT_SET, Table};
use atoll_cache::forge::rules::RULES;
use atoll_cache::miniature::choice::{Choice, ONCE};
use atoll_cache::miniature::sample::{Sample, Scale};

/// Objects of a miniature, unless that makes more sampled requests than [`SAMPLED_MAX`].
const OBJECTS: u64 = 4096;
/// About so many requests are shown to each miniature at most.
const SAMPLED_MAX: u64 = 1 << 19;

/// The engines, in the order of [`Model::misses`].
const ENGINES: [&str; 2] = ["forge", "ditto"];

/// One capacity.
struct Model {
    objects: u64,
    sample: Sample,
    forge: Choice,
    ditto: Table,
    /// Reads that each engine misses, as many as the sample stands for.
    misses: [u64; ENGINES.len()],
}

impl Model {
    /// A capacity in objects, for a load of so many. What is beyond them changes nothing.
    fn new(objects: u64, scale: Scale, objects_of_load: u64) -> Self {
        let held = objects.min(objects_of_load);
        let sample = Sample::new(scale, held);
        let set = DEFAULT_SET.parse().expect("all of them are policies");
        // Its experts see every key of this sample's.
        let ditto = Table::new(set, experts::Settings::default(), sample.objects() as usize);
        Self { objects, sample, forge: Choice::new(&RULES, scale, held), ditto, misses: [0; ENGINES.len()] }
    }

    fn read(&mut self, hash: u64, now_us: u64) {
        let missed = [self.forge.read(hash, true).has(ONCE), !self.touch_ditto(hash, now_us)];
        for (misses, missed) in self.misses.iter_mut().zip(missed) {
            *misses += u64::from(missed) << self.sample.shift();
        }
    }

    /// An access to `ditto`'s table, which inserts what it does not have. True if it hits.
    fn touch_ditto(&mut self, hash: u64, now_us: u64) -> bool {
        // All keys of the sample agree in some bits.
        let hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        let hits = self.ditto.touch(hash, now_us);
        if !hits {
            self.ditto.insert(hash, 1, now_us);
        }
        hits
    }
}

/// The engines at several capacities.
pub struct Models {
    models: Vec<Model>,
    requests: u64,
    reads: u64,
}

impl Models {
    /// Models of these capacities in objects, for a load of about so many requests and, if that is
    /// known, objects.
    pub fn new(capacities: impl IntoIterator<Item = u64>, requests: u64, objects: Option<u64>) -> Self {
        let shift_min = (requests / SAMPLED_MAX).next_power_of_two().trailing_zeros();
        let scale = Scale { objects: OBJECTS, shift_min };
        let mut capacities: Vec<u64> = capacities.into_iter().map(|objects| objects.max(2)).collect();
        capacities.sort_unstable();
        capacities.dedup();
        let most = objects.unwrap_or(u64::MAX).max(2);
        let models = capacities.into_iter().map(|held| Model::new(held, scale, most)).collect();
        Self { models, requests: 0, reads: 0 }
    }

    /// A read of a key, which is inserted if it is missed.
    pub fn read(&mut self, hash: u64) {
        self.reads += 1;
        self.each_that_samples(hash, Model::read);
    }

    /// A write of a key.
    pub fn written(&mut self, hash: u64) {
        self.each_that_samples(hash, |model, hash, now_us| {
            model.forge.written(hash, true);
            model.touch_ditto(hash, now_us);
        });
    }

    fn each_that_samples(&mut self, hash: u64, each: impl Fn(&mut Model, u64, u64)) {
        // The clock of the hit-ratio experiment.
        let now_us = 1000 * self.requests;
        self.requests += 1;
        for model in self.models.iter_mut().filter(|model| model.sample.has(hash)) {
            each(model, hash, now_us);
        }
    }

    /// Reads so far.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    fn hit_ratio(&self, model: &Model, engine: usize) -> f64 {
        (1.0 - model.misses[engine] as f64 / self.reads.max(1) as f64).clamp(0.0, 1.0)
    }

    /// The curve, with objects of so many bytes.
    pub fn points(&self, object_bytes: u64) -> Vec<Point> {
        let point = |model: &Model| Point {
            capacity_bytes: model.objects * object_bytes,
            capacity_objects: Some(model.objects),
            hit_ratios: (0..ENGINES.len())
                .map(|engine| (ENGINES[engine].to_owned(), self.hit_ratio(model, engine)))
                .collect(),
        };
        self.models.iter().map(point).collect()
    }

    /// The engine that fits: `forge`, unless `ditto` is clearly better on average.
    pub fn engine(&self) -> Option<String> {
        if self.reads == 0 {
            return None;
        }
        let mean = |engine: usize| {
            let sum: f64 = self.models.iter().map(|model| self.hit_ratio(model, engine)).sum();
            100.0 * sum / self.models.len().max(1) as f64
        };
        let is_better = mean(1) > mean(0) + ENGINE_MARGIN_PP;
        Some(ENGINES[usize::from(is_better)].to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::hit_ratio::decode;
    use atoll_deployment::reference::PolicyName;

    /// The sampled models of a skewed load hit what models of all its keys hit.
    #[test]
    fn a_sample_gives_the_hit_ratio_of_all_keys() {
        let Some(folder) = fixtures::traces() else { return };
        let keys = decode(&folder.join("cache2k_web12.oracleGeneral.zst")).unwrap();
        let ratios = |requests: u64| {
            let mut models = Models::new([1376, 2751], requests, None);
            keys.iter().for_each(|key| models.read(rapidhash::v3::rapidhash_v3(&key.to_le_bytes())));
            models.points(1).into_iter().map(|point| point.hit_ratios["forge"]).collect::<Vec<_>>()
        };
        // One key in four, as if the load had more requests.
        let (all, sampled) = (ratios(1), ratios(SAMPLED_MAX * 4));
        for (exact, sampled) in all.iter().zip(&sampled) {
            assert!((exact - sampled).abs() < 0.02, "{all:?} {sampled:?}");
        }
        // The rule that the clients begin with is nearly S3-FIFO.
        let mut policy = PolicyName::S3Fifo.make::<u64>(1376);
        let mut hits = 0;
        for key in keys.iter() {
            if policy.contains(key) {
                policy.touch(key);
                hits += 1;
            } else {
                policy.insert(*key, 1);
            }
        }
        let s3_fifo = f64::from(hits) / keys.len() as f64;
        assert!((all[0] - s3_fifo).abs() < 0.01, "{} {s3_fifo}", all[0]);
    }
}
