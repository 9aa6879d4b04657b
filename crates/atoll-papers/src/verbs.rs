//! What the operations of the cache ask of the network: round trips, verbs and bytes, counted where
//! the verbs are posted.
//!
//! One client on a simulated network does each operation many times, by itself. A row has the
//! median. Now and then a lookup meets an equal fingerprint and READs one record more; the mean
//! shows these.
//!
//! A row leaves out what a client does besides the operation: hotness, evictions, leases, the
//! pool's clock. Evictions have a row of their own: all that they cost, divided by the evicted
//! objects.

use crate::bench::sizes::{GROUP_OBJECTS, pool};
use atoll_cache::EnginePool;
use atoll_cache::forge::{Forge, ForgePool};
use atoll_cache::{Cache, SetOptions, Value};
use atoll_cases::endpoint::CaseEndpoint;
use atoll_fabric::{Kind, Purpose};
use atoll_lab::LabError;
use atoll_lab::output;
use atoll_pool::PoolSettings;
use atoll_sim::network::traffic::Posted;
use atoll_sim::network::{Network, profiles};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimError, SimOptions};
use serde::Serialize;
use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

/// Times that each operation is done.
const OPERATIONS: u64 = 300;
/// Objects that are inserted until evictions are steady, and then to count them.
const EVICTIONS: u64 = 30_000;
const VALUE: [u8; 248] = [7; 248];
const POOL_BYTES: u64 = 8 << 20;
const ADDRESS_CACHE_BYTES: usize = 1 << 20;

/// What an operation costs.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The operation.
    pub op: &'static str,
    /// Whether the client had an address cache, and knew the key if there was one to know.
    pub address_cache: bool,
    /// Times that the client waits for the network.
    pub round_trips: f64,
    /// Verbs, including unawaited ones.
    pub verbs: f64,
    /// Bytes that the verbs move, without headers.
    pub bytes: f64,
    /// Round trips in the mean, with those for equal fingerprints.
    pub round_trips_mean: f64,
}

/// All rows.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// By operation, first without address cache.
    pub ops: Vec<Row>,
}

/// Count round trips, verbs and bytes of single operations on a simulated network
#[derive(Clone, Debug, clap::Args)]
pub struct VerbsCommand {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl VerbsCommand {
    /// Counts and prints.
    pub fn run(self) -> Result<(), LabError> {
        let report = count()?;
        output::print(self.json, &report, render);
        Ok(())
    }
}

fn render(report: &Report) -> String {
    let mut text = format!(
        "{:<22}{:>15}{:>13}{:>8}{:>9}{:>19}\n",
        "", "address cache", "round trips", "verbs", "bytes", "round trips, mean"
    );
    for row in &report.ops {
        let Row { op, address_cache, round_trips, verbs, bytes, round_trips_mean } = row;
        let cache = if *address_cache { "with" } else { "without" };
        let _ =
            writeln!(text, "{op:<22}{cache:>15}{round_trips:>13.2}{verbs:>8.2}{bytes:>9.1}{round_trips_mean:>19.3}");
    }
    text
}

/// Counts every operation, without and with the address cache.
pub fn count() -> Result<Report, LabError> {
    let mut ops = Vec::new();
    for address_cache in [false, true] {
        let bench = Bench::new(if address_cache { ADDRESS_CACHE_BYTES } else { 0 })?;
        bench.prepare()?;
        for operation in Operation::ALL {
            ops.push(bench.row(operation, address_cache)?);
        }
        ops.push(bench.evictions(address_cache)?);
    }
    Ok(Report { ops })
}

/// What is done to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    GetHit,
    GetMiss,
    SetUpdate,
    SetInsert,
    Delete,
}

impl Operation {
    /// In an order in which each finds what it needs.
    const ALL: [Self; 5] = [Self::GetHit, Self::GetMiss, Self::SetUpdate, Self::SetInsert, Self::Delete];

    fn name(self) -> &'static str {
        match self {
            Self::GetHit => "GET hit",
            Self::GetMiss => "GET miss",
            Self::SetUpdate => "SET update",
            Self::SetInsert => "SET insert",
            Self::Delete => "DELETE",
        }
    }

    /// The key of its `step`th time: one that is there, or one that is not.
    fn key(self, step: u64) -> u64 {
        match self {
            Self::GetHit | Self::SetUpdate => step,
            Self::GetMiss | Self::SetInsert | Self::Delete => OPERATIONS + step,
        }
    }
}

type Client = Cache<Forge<CaseEndpoint>>;

struct Bench {
    sim: Sim,
    /// `None` while a task has it.
    client: Rc<RefCell<Option<Client>>>,
}

impl Bench {
    fn new(address_cache_bytes: usize) -> Result<Self, LabError> {
        let object_bytes = (VALUE.len() + std::mem::size_of::<u64>()) as u32;
        let settings = PoolSettings { hash_seed: 1, ..pool(POOL_BYTES, object_bytes, 1, GROUP_OBJECTS) };
        let nodes = vec![vec![region(settings.capacity_bytes, Kind::Host)]];
        let sim = Sim::new(SimOptions::timed(1, nodes, Network::new(profiles::CX5_100G, 1)));
        let (maker, endpoint) = (CaseEndpoint::new(sim.endpoint("maker")), CaseEndpoint::new(sim.endpoint("client")));
        let forge = ran(sim.block_on(async move {
            let pool = ForgePool::format(&maker, settings).await?;
            Forge::join(&pool, endpoint).await
        }))?;
        let forge = forge?;
        forge.set_address_cache(address_cache_bytes);
        Ok(Self { sim, client: Rc::new(RefCell::new(Some(Cache::new(forge)))) })
    }

    /// Sets the keys that are to be there.
    fn prepare(&self) -> Result<(), LabError> {
        (0..OPERATIONS).try_for_each(|step| self.set(step).map(drop))
    }

    /// What passed while `work` was done, by purpose.
    fn passed(
        &self,
        work: impl AsyncFnOnce(&mut Client) -> Result<(), LabError> + 'static,
    ) -> Result<[Posted; 5], LabError> {
        let before = self.sim.traffic().expect("the run is timed");
        let (place, mut client) = (self.client.clone(), self.client.take().expect("one task at a time"));
        let outcome = ran(self.sim.block_on(async move {
            let outcome = work(&mut client).await;
            *place.borrow_mut() = Some(client);
            outcome
        }))?;
        outcome?;
        let passed = self.sim.traffic().expect("the run is timed").since(&before);
        Ok(Purpose::ALL.map(|purpose| passed.of(purpose)))
    }

    fn set(&self, key: u64) -> Result<[Posted; 5], LabError> {
        self.passed(async move |client| {
            client.set(&key.to_le_bytes(), &VALUE, &SetOptions::default()).await?;
            Ok(())
        })
    }

    fn once(&self, operation: Operation, key: u64) -> Result<[Posted; 5], LabError> {
        self.passed(async move |client| {
            let bytes = key.to_le_bytes();
            let (wanted, present) = match operation {
                Operation::GetHit => (true, client.get(&bytes, &mut Value::new()).await?),
                Operation::GetMiss => (false, client.get(&bytes, &mut Value::new()).await?),
                Operation::SetUpdate | Operation::SetInsert => {
                    let outcome = client.set(&bytes, &VALUE, &SetOptions::default()).await?;
                    (operation == Operation::SetUpdate, outcome.old.is_some())
                }
                Operation::Delete => (true, client.delete(&bytes).await?),
            };
            let wrong = || LabError::Failed(format!("{}: the key was not as it should be", operation.name()));
            if wanted == present { Ok(()) } else { Err(wrong()) }
        })
    }

    fn row(&self, operation: Operation, address_cache: bool) -> Result<Row, LabError> {
        let mut all = Vec::new();
        for step in 0..OPERATIONS {
            all.push(self.once(operation, operation.key(step))?[Purpose::Request as usize]);
        }
        let median = |count: &dyn Fn(&Posted) -> u64| {
            let mut counts: Vec<u64> = all.iter().map(count).collect();
            counts.sort_unstable();
            counts[counts.len() / 2] as f64
        };
        Ok(Row {
            op: operation.name(),
            address_cache,
            round_trips: median(&|posted| posted.round_trips),
            verbs: median(&|posted| posted.verbs),
            bytes: median(&|posted| posted.bytes),
            round_trips_mean: all.iter().map(|posted| posted.round_trips).sum::<u64>() as f64 / all.len() as f64,
        })
    }

    /// Inserts into a full pool, and what making room for that costs.
    fn evictions(&self, address_cache: bool) -> Result<Row, LabError> {
        let insert = |from: u64| {
            self.passed(async move |client| {
                for key in from..from + EVICTIONS {
                    client.set(&key.to_le_bytes(), &VALUE, &SetOptions::default()).await?;
                }
                Ok(())
            })
        };
        let evicted = || self.client.borrow().as_ref().map_or(0, |client| client.stats().evictions);
        insert(1 << 32)?;
        let before = evicted();
        let passed = insert(2 << 32)?;
        let objects = (evicted() - before).max(1) as f64;
        let mut cost = Posted::default();
        for purpose in [Purpose::Hotness, Purpose::Eviction, Purpose::Collection] {
            cost.add(&passed[purpose as usize]);
        }
        let round_trips = cost.round_trips as f64 / objects;
        Ok(Row {
            op: "eviction, per object",
            address_cache,
            round_trips,
            verbs: cost.verbs as f64 / objects,
            bytes: cost.bytes as f64 / objects,
            round_trips_mean: round_trips,
        })
    }
}

impl Drop for Bench {
    /// Leaving takes a task of the simulation.
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            let _ = self.sim.block_on(async move { client.engine().leave().await });
        }
    }
}

fn ran<T>(outcome: Result<T, SimError>) -> Result<T, LabError> {
    outcome.map_err(|error| LabError::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_takes_two_round_trips_and_a_set_three_and_with_known_addresses_one_less() {
        let report = count().unwrap();
        let row = |op: &str, address_cache: bool| {
            report.ops.iter().find(|row| row.op == op && row.address_cache == address_cache).unwrap()
        };
        for (op, most, most_known) in
            [("GET hit", 2.0, 1.0), ("GET miss", 1.0, 1.0), ("SET update", 3.0, 2.0), ("SET insert", 3.0, 3.0)]
        {
            assert!(row(op, false).round_trips <= most, "{}", render(&report));
            assert!(row(op, true).round_trips <= most_known, "{}", render(&report));
            assert!(row(op, false).round_trips_mean <= most + 0.1, "{}", render(&report));
        }
        assert!(row("eviction, per object", false).round_trips < 1.0, "{}", render(&report));
    }
}
