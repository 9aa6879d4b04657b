//! Round trips and verbs of single operations over a network, of one client alone.

use atoll_cache::forge::ForgeOptions;
use atoll_cache::{Cache, Pooled, SetOptions, Value};
use atoll_cases::compiled::sim;
use atoll_cases::endpoint::CaseEndpoint;
use atoll_fabric::{Batch, Endpoint, Kind, Purpose};
use atoll_pool::chunks::FreeCount;
use atoll_pool::reuses::{self, Reuses};
use atoll_sim::network::{Network, Profile, Traffic, profiles};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimOptions};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

const KEYS: u64 = 160;
/// Keys of one lookup of many keys.
const KEYS_AT_ONCE: usize = 16;

type Client = Cache<sim::Forge>;

/// A pool over a network with one client, which has set [`KEYS`] keys.
struct Alone {
    sim: Sim,
    client: Rc<RefCell<Option<Client>>>,
}

impl Alone {
    fn new() -> Self {
        Self::over(profiles::CX5_100G)
    }

    fn over(profile: Profile) -> Self {
        let settings = ForgeOptions::default().for_capacity(64 << 20);
        let nodes = vec![vec![region(settings.capacity_bytes, Kind::Host)]];
        let sim = Sim::new(SimOptions::timed(1, nodes, Network::new(profile, 1)));
        let endpoint = CaseEndpoint::new(sim.endpoint("client"));
        let client = sim.block_on(async move {
            let pool = sim::Forge::format(&endpoint, settings).await.unwrap();
            Cache::new(sim::Forge::join(&pool, endpoint).await.unwrap())
        });
        let alone = Self { sim, client: Rc::new(RefCell::new(Some(client.unwrap()))) };
        alone.posted(async |client| set_all(client, 100).await);
        alone
    }

    /// Round trips and verbs of requests that the client posts meanwhile.
    fn posted(&self, operations: impl AsyncFnOnce(&Client) + 'static) -> (u64, u64) {
        let posted = self.traffic(operations).of(Purpose::Request);
        (posted.round_trips, posted.verbs)
    }

    /// What the client posts meanwhile.
    fn traffic(&self, operations: impl AsyncFnOnce(&Client) + 'static) -> Traffic {
        let before = self.sim.traffic().unwrap();
        let (place, client) = (self.client.clone(), self.client.take().unwrap());
        let run = async move {
            operations(&client).await;
            *place.borrow_mut() = Some(client);
        };
        self.sim.block_on(run).unwrap();
        self.sim.traffic().unwrap().since(&before)
    }
}

impl Drop for Alone {
    /// Leaving takes a task of the simulation.
    fn drop(&mut self) {
        std::mem::forget(self.client.take());
    }
}

/// Round trips for all purposes.
fn round_trips(traffic: &Traffic) -> u64 {
    Purpose::ALL.iter().map(|purpose| traffic.of(*purpose).round_trips).sum()
}

async fn set_all(client: &Client, value_bytes: usize) {
    for number in 0..KEYS {
        client.set(&number.to_le_bytes(), &vec![7; value_bytes], &SetOptions::default()).await.unwrap();
    }
}

async fn get_all(client: &Client) {
    let keys: Vec<[u8; 8]> = (0..KEYS).map(u64::to_le_bytes).collect();
    for keys in keys.chunks(KEYS_AT_ONCE) {
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
        let mut hits = 0;
        client.get_many(&keys, |_, value| hits += usize::from(value.is_some())).await.unwrap();
        assert_eq!(hits, keys.len());
    }
}

#[test]
fn sixteen_keys_at_once_take_two_round_trips_and_one_if_the_client_remembers_them() {
    let alone = Alone::new();
    let lookups = KEYS / KEYS_AT_ONCE as u64;
    let remembered = alone.posted(get_all);
    // A key whose first candidate is another key's object is looked up alone.
    let unknown = alone.posted(async |client| {
        client.engine().set_address_cache(0);
        get_all(client).await;
    });
    println!("{lookups} lookups of {KEYS_AT_ONCE} keys: {remembered:?} and {unknown:?} round trips and verbs");
    assert_eq!(remembered, (lookups, 2 * KEYS));
    assert!((2 * lookups..3 * lookups).contains(&unknown.0), "{unknown:?}");
}

#[test]
fn a_set_of_a_key_that_the_client_remembers_takes_one_round_trip() {
    let alone = Alone::new();
    let seen_lately = alone.posted(async |client| set_all(client, 100).await);
    let seen_long_ago = alone.posted(async |client| {
        client.engine().client().endpoint.pause(1_000_000_000).await;
        set_all(client, 100).await;
    });
    // A quarter of the tag's values.
    let reused = alone.posted(async |client| {
        let forge = client.engine();
        let (endpoint, reuses) = (&forge.client().endpoint, forge.pool().pool().layout.reuses());
        endpoint.pause(1_000_000_000).await;
        for word in 0..Reuses::BYTES as u64 / 8 {
            let mut batch = Batch::new();
            batch.fetch_and_add(reuses.add(8 * word), 1 << 14);
            endpoint.post_unawaited(&mut batch);
        }
        endpoint.flush().await.unwrap();
        set_all(client, 100).await;
    });
    let unknown = alone.posted(async |client| {
        client.engine().set_address_cache(0);
        set_all(client, 100).await;
    });
    println!("{KEYS} SETs: {seen_lately:?}, {seen_long_ago:?}, {reused:?}, {unknown:?} round trips and verbs");
    // A SET that finds no room in its group, and what a client does now and then.
    let about = |trips: u64| trips * KEYS..trips * KEYS + KEYS / 8;
    assert!(about(1).contains(&seen_lately.0), "{seen_lately:?}");
    assert!(about(1).contains(&seen_long_ago.0), "{seen_long_ago:?}");
    assert!(about(2).contains(&reused.0), "{reused:?}");
    assert!(about(3).contains(&unknown.0), "{unknown:?}");
}

/// One life in eight is counted, for eight.
#[test]
fn lives_of_chunks_are_counted() {
    const LIVES: u64 = 64;
    let alone = Alone::new();
    alone.posted(async |client| {
        let (client, layout) = (client.engine().client(), &client.engine().pool().pool().layout);
        let counted = async || {
            client.endpoint.flush().await.unwrap();
            let words = reuses::read(&client.endpoint, layout).await.unwrap();
            words.words().iter().sum::<u64>()
        };
        let before = counted().await;
        let mut free = client.allocate(FreeCount::Ignored, 0).await.unwrap().unwrap();
        for _ in 0..LIVES {
            client.free_open(&[free]).await.unwrap();
            free.1 = free.1.wrapping_add(1);
            assert!(client.allocate_known(free).await.unwrap());
        }
        assert_eq!(counted().await - before, LIVES);
    });
}

/// A server expects the keys of a pipeline before it runs the commands.
#[test]
fn sets_that_were_expected_take_one_round_trip_each_and_two_for_all() {
    let alone = Alone::new();
    let expected = alone.posted(async |client| {
        client.engine().client().endpoint.pause(1_000_000_000).await;
        let keys: Vec<[u8; 8]> = (0..KEYS).map(u64::to_le_bytes).collect();
        client.engine().set_address_cache(0);
        client.engine().set_address_cache(1 << 20);
        for keys in keys.chunks(KEYS_AT_ONCE) {
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
            client.expect(&keys).await;
            // What the client knows by now is not READ again.
            client.expect(&keys).await;
            for key in keys {
                client.set(key, &[8; 100], &SetOptions::default()).await.unwrap();
            }
        }
    });
    println!("{KEYS} SETs, {KEYS_AT_ONCE} at a time: {expected:?} round trips and verbs");
    let least = KEYS + 2 * KEYS / KEYS_AT_ONCE as u64;
    assert!((least..least + KEYS / 4).contains(&expected.0), "{expected:?}");
}

/// Operations of one client in the test below, at once.
const SETS_AT_ONCE: usize = 40;

/// Runs all of them at once, until the last one has ended.
async fn run_at_once(mut running: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>) {
    poll_fn(|context| {
        running.retain_mut(|each| each.as_mut().poll(context).is_pending());
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// One of the operations finds no room in the group that the client fills. The others need not wait
/// until it has queued that group, nor look their keys up.
#[test]
fn sets_at_once_take_one_round_trip_each_also_where_a_group_is_full() {
    let alone = Alone::new();
    let rounds = 20;
    let at_once = alone.traffic(async move |client| {
        let keys: Vec<[u8; 8]> = (0..KEYS).map(u64::to_le_bytes).collect();
        for keys in keys.chunks(SETS_AT_ONCE).cycle().take(rounds) {
            let set = async |key: &[u8]| {
                client.set(key, &[9; 1000], &SetOptions::default()).await.unwrap();
            };
            run_at_once(keys.iter().map(|key| Box::pin(set(key)) as Pin<Box<dyn Future<Output = ()>>>).collect()).await;
        }
    });
    let sets = (rounds * SETS_AT_ONCE) as u64;
    // A purpose is that of all operations at once.
    let posted = round_trips(&at_once);
    println!("{sets} SETs, {SETS_AT_ONCE} at once: {posted} round trips");
    assert!((sets..sets + sets * 3 / 5).contains(&posted), "{posted}");
}

/// Far more operations than a client runs at once. Where operations wait, each may wait for others,
/// and a tenant may give some of them up.
#[test]
fn any_number_of_operations_may_wait_and_be_dropped() {
    const WAITING: u64 = 500;
    let alone = Alone::new();
    alone.posted(async |client| {
        let set = async |key: u64| {
            // The client knows some keys and not others.
            client.set(&(key % 300).to_le_bytes(), &[9; 1000], &SetOptions::default()).await.unwrap();
        };
        for round in 0..10 {
            let mut sets: Vec<_> = (0..WAITING).map(|key| Box::pin(set(key))).collect();
            if round % 2 == 1 {
                // In flight, each after another number of steps.
                for dropped in 0..20 {
                    poll_fn(|context| {
                        sets.retain_mut(|each| each.as_mut().poll(context).is_pending());
                        Poll::Ready(())
                    })
                    .await;
                    client.engine().client().endpoint.pause(2_000).await;
                    sets.drain(..sets.len().min(dropped));
                }
            }
            run_at_once(sets.into_iter().map(|set| set as Pin<Box<dyn Future<Output = ()>>>).collect()).await;
        }
        assert_eq!(client.engine().client().in_flight().count(), 0);
        let mut value = Value::new();
        assert!(client.get(&7_u64.to_le_bytes(), &mut value).await.unwrap());
    });
}

const LARGE: &[u8] = &[7; 2 << 20];

/// The value has 65 chunks, and one that lists them. They are allocated and turned into extents in
/// batches, not one by one, and written in a few.
#[test]
fn a_set_of_two_mebibytes_takes_a_few_round_trips() {
    let alone = Alone::new();
    let set = alone.traffic(async |client| {
        client.set(b"large", LARGE, &SetOptions::default()).await.unwrap();
    });
    let posted = round_trips(&set);
    println!("one SET of 2 MiB: {posted} round trips");
    assert!(posted < 32, "{posted}");
}

/// While the client copies the bytes of one batch, the network transfers those of the next.
#[test]
fn a_get_of_two_mebibytes_takes_little_longer_than_its_bytes_on_the_link() {
    let alone = Alone::over(profiles::TCP_25G);
    alone.traffic(async |client| {
        client.set(b"large", LARGE, &SetOptions::default()).await.unwrap();
    });
    let before_ns = alone.sim.now_ns();
    alone.traffic(async |client| assert!(client.get(b"large", &mut Value::new()).await.unwrap()));
    let took_ns = alone.sim.now_ns() - before_ns;
    let on_link_ns = 8 * LARGE.len() as u64 * 1_000_000_000 / profiles::TCP_25G.link_bits_per_s;
    println!("one GET of 2 MiB: {took_ns} ns, of which its bytes take {on_link_ns} ns on the link");
    assert!(took_ns < on_link_ns * 3 / 2, "{took_ns} ns");
}

#[test]
fn operations_end_where_one_round_trip_takes_longer_than_tags_are_relied_on_at_first() {
    // One way through the cables takes 30 ms.
    let alone = Alone::over(Profile { wire_ps: 30_000_000_000, ..profiles::TCP_25G });
    let round_trips = |(round_trips, _): (u64, u64)| round_trips;
    // What it learns the first time holds from then on.
    alone.posted(get_all);
    let lookups = round_trips(alone.posted(get_all));
    let sets = round_trips(alone.posted(async |client| set_all(client, 100).await));
    println!("{lookups} round trips for {KEYS} keys in lookups of {KEYS_AT_ONCE}, {sets} for as many sets");
    assert!(lookups <= 3 * KEYS / KEYS_AT_ONCE as u64 && sets <= 3 * KEYS);
    alone.posted(async |client| {
        let mut value = Value::new();
        assert!(client.get(&0_u64.to_le_bytes(), &mut value).await.unwrap());
        assert!(client.delete(&0_u64.to_le_bytes()).await.unwrap());
        assert!(!client.get(&0_u64.to_le_bytes(), &mut value).await.unwrap());
        assert!(client.engine().client().endpoint.now_ns() > 1_000_000_000);
    });
}
