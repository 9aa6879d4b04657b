//! A pool that a user has: what its verbs, its GETs and its SETs cost by how many are in flight,
//! beside what the network costs without it, and what to do about it.
//!
//! | module | concept |
//! |---|---|
//! | `measure` | operations in flight all the time, and their latencies |
//! | `bare` | the network without the pool |
//! | `advice` | what the figures mean |
//! | `report` | the figures |
//!
//! The pool's objects are not touched. Verbs go to a region that the client exports and that ends
//! with it. GETs and SETs have keys of their own, which are removed at the end, and which expire by
//! themselves if the command is killed. A full pool evicts other objects for them: a hundred
//! kilobytes.

mod advice;
mod bare;
mod measure;
mod report;

use crate::LabError;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::scheduled::Scheduled;
use advice::{Found, host_work};
use atoll::Pool;
use atoll::fabric::{EndpointOf, OnFabric, ServedFabric, on_fabric};
use atoll_cache::{Cache, CacheError, Chosen, Engine, Expiry, Near, SetOptions, Value};
use atoll_fabric::{
    Address, Batch, Buffer, Domain, Endpoint, Kind, Lifetime, RegionAttributes, Ticket, VerbError, block_on_with,
};
use measure::{Flown, in_flight};
pub(super) use report::PoolReport;
use report::Row;
use std::time::{Duration, Instant};

/// Operations in flight.
const DEPTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Bytes of values, and of READs and WRITEs.
const BYTES: usize = 256;
/// Keys of each connection.
const KEYS: u64 = 256;
/// A key that was not removed expires so much later.
const EXPIRY_MS: u64 = 600_000;
/// READs that show what a connection carries.
const LARGE_BYTES: usize = 64 << 10;
const LARGE_DEPTH: usize = 16;

/// How it is measured.
pub(super) struct Options {
    /// Of each measurement of a round.
    pub(super) seconds: f64,
    pub(super) rounds: u32,
}

/// Measures the pool at an address.
pub(super) fn measure(address: &str, options: &Options) -> Result<PoolReport, LabError> {
    on_fabric(address, PoolRun { address, options })?
}

struct PoolRun<'o> {
    address: &'o str,
    options: &'o Options,
}

impl OnFabric for PoolRun<'_> {
    type Output = Result<PoolReport, LabError>;

    fn run<F: ServedFabric>(self, fabric: F) -> Self::Output {
        let pool = Pool::open_on(&fabric)?;
        let interrupt = Interrupt::new()?;
        // Near memory answers at once: one operation at a time is all there is.
        let depths = if pool.is_near() { &DEPTHS[..1] } else { &DEPTHS[..] };
        let steps = u64::from(self.options.rounds) * (1 + depths.len() as u64);
        let progress = Progress::new(steps, "micro");
        let mut rows: Vec<Row> = Vec::new();
        let mut found = Found { is_near: pool.is_near(), ..Found::default() };
        for _ in 0..self.options.rounds {
            let mut user = User::<F>::new(&pool, 0)?;
            let measured = depths.iter().try_for_each(|depth| {
                interrupt.check()?;
                user.round(*depth, self.time(), &mut rows, &mut found)?;
                progress.advance(1);
                Ok::<(), LabError>(())
            });
            let large = measured.and_then(|()| user.reads(LARGE_DEPTH, LARGE_BYTES, self.time()));
            // The keys are removed in any case; the first error counts. A client that stayed while
            // others are measured would be silent for so long that they shut it out.
            let left = user.leave();
            found.large_bytes_per_s.push(large?.per_s() * LARGE_BYTES as f64);
            left?;
            interrupt.check()?;
            self.round_of_limits(&pool, &mut found)?;
            progress.advance(1);
        }
        let bare = bare::measure(self.address, self.time())?;
        Ok(PoolReport::new(self.address, pool.fabric(), rows, bare, found))
    }
}

impl PoolRun<'_> {
    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.options.seconds)
    }

    /// What one connection carries, and what two do.
    fn round_of_limits<F: ServedFabric>(&self, pool: &Pool<F>, found: &mut Found) -> Result<(), LabError> {
        let time = self.time();
        let depth = if found.is_near { 1 } else { DEPTHS[DEPTHS.len() - 1] };
        let gets = |number: u64| -> Result<f64, LabError> {
            let user = User::<F>::new(pool, number)?;
            let gets = user.gets(depth, time);
            let left = user.leave();
            let gets = gets?;
            left.map(|()| gets.per_s())
        };
        found.one_connection.push(gets(1)?);
        let before = host_work();
        let both: Result<Vec<f64>, LabError> = std::thread::scope(|scope| {
            let threads = [2, 3].map(|number| scope.spawn(move || gets(number)));
            threads.into_iter().map(|thread| thread.join().expect("a measurement has a bug")).collect()
        });
        if let (Some(before), Some(after)) = (before, host_work())
            && after[1] > before[1]
        {
            found.host_share.push((after[0] - before[0]) / (after[1] - before[1]));
        }
        found.two_connections.push(both?.iter().sum());
        Ok(())
    }
}

/// A client that measures, on a connection of its own.
struct User<F: ServedFabric> {
    operations: Cache<Near<Chosen<EndpointOf<F>>>>,
    /// Memory that verbs may change.
    scratch: Address,
    /// What its keys begin with.
    prefix: String,
}

impl<F: ServedFabric> User<F> {
    /// Joins, exports its memory and sets its keys.
    fn new(pool: &Pool<F>, number: u64) -> Result<Self, LabError> {
        let operations = pool.client()?.into_operations();
        let endpoint = &operations.engine().client().endpoint;
        let scratch = endpoint.export(RegionAttributes {
            bytes: (LARGE_DEPTH * LARGE_BYTES) as u64,
            kind: Kind::Host,
            domain: Domain::Cpu,
            lifetime: Lifetime::Process,
        })?;
        let prefix = format!("atoll-micro-{:016x}-{number}-", endpoint.random());
        let user = Self { operations, scratch, prefix };
        let set: Result<(), CacheError> = user.block_on(async {
            for key in 0..KEYS {
                user.set(key).await?;
            }
            Ok(())
        });
        match set {
            Ok(()) => Ok(user),
            Err(error) => user.leave().and(Err(error.into())),
        }
    }

    fn endpoint(&self) -> &atoll_pool::gate::Gate<EndpointOf<F>> {
        &self.operations.engine().client().endpoint
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        block_on_with(|| self.endpoint().wait(), future)
    }

    fn key(&self, key: u64) -> Vec<u8> {
        format!("{}{}", self.prefix, key % KEYS).into_bytes()
    }

    async fn set(&self, key: u64) -> Result<(), CacheError> {
        let options = SetOptions { expiry: Expiry::InMs(EXPIRY_MS), ..SetOptions::default() };
        self.operations.set(&self.key(key), &[key as u8; BYTES], &options).await.map(drop)
    }

    /// Where one of several operations in flight has its memory.
    fn place(&self, lane: usize, bytes: usize) -> Address {
        self.scratch.add((lane * bytes) as u64)
    }

    fn reads(&self, depth: usize, bytes: usize, time: Duration) -> Result<Flown, LabError> {
        let read = async |lane: usize, buffer: &mut Buffer| {
            buffer.resize(bytes);
            *buffer = self.endpoint().read(self.place(lane, bytes), std::mem::take(buffer)).await?;
            Ok(())
        };
        self.verbs(depth, time, read)
    }

    fn verbs(
        &self,
        depth: usize,
        time: Duration,
        each: impl AsyncFn(usize, &mut Buffer) -> Result<(), VerbError>,
    ) -> Result<Flown, LabError> {
        self.block_on(in_flight(depth, time, Buffer::new, each)).map_err(|error| CacheError::Verb(error).into())
    }

    fn batches(
        &self,
        depth: usize,
        time: Duration,
        add: impl Fn(&mut Batch, Address) -> Ticket,
    ) -> Result<Flown, LabError> {
        self.verbs(depth, time, async |lane, _| {
            let mut batch = Batch::new();
            add(&mut batch, self.place(lane, BYTES));
            self.endpoint().post(&mut batch).await
        })
    }

    fn gets(&self, depth: usize, time: Duration) -> Result<Flown, LabError> {
        let each = async |lane: usize, (key, value): &mut (u64, Value)| {
            *key += 1;
            // A miss is measured, too: another client may have evicted or flushed the key.
            self.operations.get(&self.key(*key + 4 * lane as u64), value).await.map(drop)
        };
        Ok(self.block_on(in_flight(depth, time, || (0, Value::new()), each))?)
    }

    fn sets(&self, depth: usize, time: Duration) -> Result<Flown, LabError> {
        let each = async |lane: usize, key: &mut u64| {
            *key += 1;
            self.set(*key + 4 * lane as u64).await
        };
        Ok(self.block_on(in_flight(depth, time, || 0, each))?)
    }

    /// Everything once, with so many in flight.
    fn round(&mut self, depth: usize, time: Duration, rows: &mut Vec<Row>, found: &mut Found) -> Result<(), LabError> {
        let mut add = |name, flown: Flown, round_trips: Option<f64>| Row::add(rows, name, depth, &flown, round_trips);
        add("READ", self.reads(depth, BYTES, time)?, None);
        add("WRITE", self.batches(depth, time, |batch, at| batch.write(at, Buffer::sized(BYTES)))?, None);
        add("CAS", self.batches(depth, time, |batch, at| batch.compare_and_swap(at, 7, 7))?, None);
        add("FAA", self.batches(depth, time, |batch, at| batch.fetch_and_add(at, 1))?, None);
        let round_trips = || self.operations.stats().fabric_round_trips;
        let (begun, scheduled) = (Instant::now(), Scheduled::this_thread());
        let (core_before, before) = (scheduled.ns().0, round_trips());
        let gets = self.gets(depth, time)?;
        let core = (scheduled.ns().0 - core_before) as f64 / begun.elapsed().as_nanos() as f64;
        let of = |count: u64, taken: u64| (!found.is_near).then(|| taken as f64 / count as f64);
        let (count, taken) = (gets.count(), round_trips() - before);
        add("GET", gets, of(count, taken));
        let before = round_trips();
        let sets = self.sets(depth, time)?;
        let (count, taken) = (sets.count(), round_trips() - before);
        add("SET", sets, of(count, taken));
        if depth == DEPTHS[DEPTHS.len() - 1] {
            found.core_share.push(core);
        }
        Ok(())
    }

    /// Removes its keys, and leaves.
    fn leave(self) -> Result<(), LabError> {
        let removed = self.block_on(async {
            for key in 0..KEYS {
                self.operations.delete(&self.key(key)).await?;
            }
            Ok::<(), CacheError>(())
        });
        let left = self.block_on(self.operations.engine().close());
        Ok(removed.and(left)?)
    }
}
