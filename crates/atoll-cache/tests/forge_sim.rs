//! `forge` on the simulated fabric: promises 1, 5 and the pool's invariants, under every liberty of the contract.

mod load;

use atoll_cache::Cache;
use atoll_cache::forge::{Forge, ForgeOptions, ForgePool, Hole};
use atoll_pool::PoolSettings;
use atoll_sim::{History, Random, Sim, SimOptions, for_each_seed};
use load::Load;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A pool so small that everything happens all the time.
#[derive(Clone, Debug)]
struct Case {
    options: ForgeOptions,
    chunk_bytes: u32,
    chunks: u64,
    group_objects_max: u32,
    objects_max: u64,
    slots: u64,
    clients: u32,
    load: Load,
    hole: Option<Hole>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            options: ForgeOptions::default(),
            chunk_bytes: 512,
            chunks: 24,
            group_objects_max: 6,
            objects_max: 0,
            slots: 64,
            clients: 3,
            load: Load { keys: 5, operations: 60, value_bytes_max: 300, lookups: 40, mixed: true },
            hole: None,
        }
    }
}

impl Case {
    /// A case whose every number comes from the seed.
    fn drawn(seed: u64) -> Self {
        let mut random = Random::stream(seed, 7);
        let paper = random.below(4) == 0;
        let options = if paper { ForgeOptions::paper() } else { ForgeOptions::default() };
        let clients = 2 + random.below(3) as u32;
        Self {
            options: ForgeOptions { small_percent: random.pick(&[10, 20, 50]), ..options },
            chunk_bytes: random.pick(&[256, 512, 1024]),
            chunks: random.pick(&[18, 24, 40]),
            group_objects_max: random.pick(&[1, 2, 4, 12]),
            objects_max: random.pick(&[0, 0, 0, 4, 12]),
            slots: random.pick(&[32, 64]),
            clients,
            load: Load {
                keys: random.pick(&[1, 2, 4, 8]),
                operations: 60,
                value_bytes_max: random.pick(&[40, 200, 900]),
                lookups: random.pick(&[20, 50]),
                mixed: random.below(4) > 0,
            },
            hole: None,
        }
    }

    fn settings(&self) -> PoolSettings {
        let heap = self.chunks * u64::from(self.chunk_bytes);
        let base = PoolSettings {
            capacity_bytes: heap,
            chunk_bytes: self.chunk_bytes,
            clients_max: self.clients + 2,
            objects_max: self.objects_max,
            group_objects_max: self.group_objects_max,
            ..PoolSettings::for_capacity(1 << 20)
        };
        let settings = self.options.settings(base, self.slots);
        let metadata = atoll_cache::forge::layout::engine_bytes(&settings, 0) + 2048 + self.chunks * 32;
        PoolSettings {
            capacity_bytes: (heap + metadata + u64::from(self.clients) * 256).next_multiple_of(8),
            ..settings
        }
    }

    /// Runs the case under a seed; what was wrong, if anything was.
    fn run(&self, seed: u64) -> Result<usize, String> {
        let settings = self.settings();
        let mut options = SimOptions::new(seed, settings.capacity_bytes);
        options.steps_max = 30_000_000;
        let bytes = settings.capacity_bytes;
        let sim = Sim::new(options);
        let (endpoint, shared) = (sim.endpoint("maker"), settings.clone());
        sim.block_on(async move { ForgePool::format(&endpoint, shared).await.map(drop) })
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
        let (history, errors) = (Rc::new(History::new()), Rc::new(RefCell::new(Vec::new())));
        let running = Rc::new(Cell::new(self.clients));
        for client in 0..self.clients {
            let (endpoint, history, errors) =
                (sim.endpoint(&format!("client {client}")), history.clone(), errors.clone());
            let (case, running) = (self.clone(), running.clone());
            sim.spawn(&format!("client {client}"), async move {
                let outcome = async {
                    // Every client is a process of its own, with its own map of hotness.
                    let pool = ForgePool::open(&endpoint, bytes).await.map_err(|error| error.to_string())?;
                    let mut forge = Forge::join(&pool, endpoint).await.map_err(|error| error.to_string())?;
                    if let Some(hole) = case.hole {
                        forge.open_hole(hole);
                    }
                    let mut cache = Cache::new(forge);
                    let done = load::run(&mut cache, client, seed, &case.load, &history).await;
                    let left = cache.engine_mut().leave().await;
                    done.and(left).map_err(|error| error.to_string())
                };
                if let Err(error) = outcome.await {
                    errors.borrow_mut().push(format!("client {client}: {error}"));
                }
                running.set(running.get() - 1);
            });
        }
        sim.run().map_err(|error| error.to_string())?;
        if let Some(error) = errors.borrow().first() {
            return Err(error.clone());
        }
        let endpoint = sim.endpoint("auditor");
        let report = sim
            .block_on(async move {
                let pool = ForgePool::open(&endpoint, bytes).await.map_err(|error| error.to_string())?;
                let mut forge = Forge::join(&pool, endpoint).await.map_err(|error| error.to_string())?;
                let report = forge.verify().await.map_err(|error| error.to_string())?;
                forge.leave().await.map_err(|error| error.to_string())?;
                Ok::<_, String>(report)
            })
            .map_err(|error| error.to_string())??;
        if let Some(fault) = report.faults.first() {
            return Err(format!("verify: {fault}"));
        }
        history.check().map(|checked| checked.hits).map_err(|violation| violation.to_string())
    }
}

fn replay(seed: u64) -> String {
    format!("replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cache --test forge_sim")
}

#[test]
fn promise_1_histories_are_linearizable_and_the_pool_is_sound_whatever_the_schedule() {
    let hits = Cell::new(0);
    for_each_seed(300, |seed| {
        let case = Case::drawn(seed);
        match case.run(seed) {
            Ok(found) => hits.set(hits.get() + found),
            Err(error) => panic!("seed {seed}: {error}\n{case:?}\n{}", replay(seed)),
        }
    });
    assert!(hits.get() > 0, "a load that never hits shows nothing");
}
