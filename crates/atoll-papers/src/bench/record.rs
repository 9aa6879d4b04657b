//! What a run of an experiment notes beside its figures: the networks that it simulated, how large
//! the caches of its points were, what was full, and what follows from that.

use super::measured::Measured;
use atoll_lab::report::Reached;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The notes of one run. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Record(Arc<Mutex<Notes>>);

#[derive(Debug, Default)]
struct Notes {
    profiles: BTreeSet<&'static str>,
    conclusions: Vec<String>,
    reached: Vec<Reached>,
}

impl Record {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a network is simulated.
    pub fn profile(&self, name: &'static str) {
        self.notes().profiles.insert(name);
    }

    /// Notes what follows from what was counted.
    pub fn conclude(&self, sentence: String) {
        self.notes().conclusions.push(sentence);
    }

    /// Notes what a point reached.
    pub(crate) fn point(&self, line: &str, at: &str, measured: &Measured) {
        self.notes().reached.push(measured.reached(line, at));
    }

    /// The networks.
    pub fn profiles(&self) -> Vec<String> {
        self.notes().profiles.iter().map(|name| (*name).to_owned()).collect()
    }

    /// What the points reached.
    pub fn reached(&self) -> Vec<Reached> {
        self.notes().reached.clone()
    }

    /// What follows from what was counted: what was noted, and which server was full at how many
    /// points of each system.
    pub fn conclusions(&self) -> Vec<String> {
        let notes = self.notes();
        let mut systems: Vec<(&str, BTreeMap<&str, usize>)> = Vec::new();
        for point in &notes.reached {
            // A line is named by its load, if there are several, and then by its system.
            let system = point.line.rsplit(", ").next().unwrap_or_default();
            let known = systems.iter().position(|(name, _)| *name == system);
            let place = known.unwrap_or_else(|| {
                systems.push((system, BTreeMap::new()));
                systems.len() - 1
            });
            *systems[place].1.entry(&point.full).or_default() += 1;
        }
        let told = systems.into_iter().map(|(system, servers)| {
            let points: usize = servers.values().sum();
            let of = |(server, count): (&str, usize)| format!("{server} in {count}");
            format!(
                "Full, of {points} points of {system}: {}.",
                servers.into_iter().map(of).collect::<Vec<_>>().join("; ")
            )
        });
        notes.conclusions.iter().cloned().chain(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conclusions_say_of_each_system_what_was_full() {
        let record = Record::default();
        record.conclude("Ditto hits most.".to_owned());
        for (line, full) in
            [("a, forge", "link"), ("b, forge", "link"), ("a, ditto", "no server"), ("a, forge", "none")]
        {
            let reached = Reached { line: line.to_owned(), full: full.to_owned(), ..Reached::default() };
            record.notes().reached.push(reached);
        }
        let told = [
            "Ditto hits most.",
            "Full, of 3 points of forge: link in 2; none in 1.",
            "Full, of 1 points of ditto: no server in 1.",
        ];
        assert_eq!(record.conclusions(), told);
    }
}
