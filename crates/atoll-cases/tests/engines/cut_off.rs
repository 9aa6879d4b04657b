//! Changes that are dropped at a pause, where memory is near: by a server that stops. What they had
//! begun is repaired, and the key has its old value or the new one.

use atoll_cache::ditto::DittoOptions;
use atoll_cache::forge::ForgeOptions;
use atoll_cache::{Cache, Pooled, SetOptions, Value};
use atoll_cases::compiled::shm;
use atoll_cases::shared_memory::{SharedPool, value_of};
use atoll_fabric::shm::ShmEndpoint;
use atoll_pool::PoolSettings;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// So long that each step of a change pauses.
const BYTES: usize = 17 << 20;
/// More than a change has.
const PAUSES_MAX: u64 = 1000;

/// Lets a future wait once.
async fn pause() {
    let mut has_waited = false;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Polls a future so many times at most, and drops it.
fn polled<T>(most: u64, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let poll = |_| match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ended) => Some(ended),
        Poll::Pending => None,
    };
    (0..most).find_map(poll)
}

fn ended<T>(future: impl Future<Output = T>) -> T {
    polled(u64::MAX, future).expect("it ends")
}

fn joined<G: Pooled<ShmEndpoint>>(pool: &SharedPool<G>) -> Cache<G> {
    Cache::new(ended(G::join(&pool.pool, pool.endpoint())).expect("there is a place"))
}

/// Replaces a value of a client that leaves then; drops the change at its pause of this number.
/// Returns whether it ended before.
fn cut_off<G: Pooled<ShmEndpoint>>(pool: &SharedPool<G>, pause: u64, is_staged: bool) -> bool {
    let (cache, options) = (joined(pool), SetOptions::default());
    let [old, new] = [1, 2].map(|version| value_of(pause, version, BYTES));
    ended(cache.set(b"k", &old, &options)).unwrap();
    let change = async {
        match is_staged {
            false => cache.set(b"k", &new, &options).await.unwrap(),
            true => {
                let mut staged = cache.stage(b"k", BYTES).unwrap().expect("there is room");
                cache.append_staged(&mut staged, &new).await.unwrap();
                cache.set_staged(b"k", staged, &options, None).await.unwrap()
            }
        }
    };
    let has_ended = polled(pause, change).is_some();
    ended(cache.engine().close()).unwrap();
    drop(cache);
    // It repairs what the client has left behind, if that says so.
    let other = joined(pool);
    let mut value = Value::new();
    assert!(ended(other.get(b"k", &mut value)).unwrap());
    assert!(value.bytes() == if has_ended { &new } else { &old } || value.bytes() == new, "pause {pause}");
    ended(other.engine().close()).unwrap();
    let walker = joined(pool);
    assert_eq!(ended(walker.engine().verify()).unwrap().faults, Vec::<String>::new(), "pause {pause}");
    ended(walker.engine().close()).unwrap();
    has_ended
}

fn changes_that_are_cut_off<G: Pooled<ShmEndpoint>>(settings: PoolSettings) {
    atoll_cache::pause_with(|_| Box::pin(pause()));
    let pool = SharedPool::<G>::new(settings);
    for is_staged in [false, true] {
        let pauses = (1..PAUSES_MAX).find(|pause| cut_off(&pool, *pause, is_staged));
        println!("a change pauses {pauses:?} times");
        assert!(pauses.is_some_and(|pauses| pauses > 15), "{pauses:?}");
    }
}

#[test]
fn promise_4_a_change_that_is_dropped_at_a_pause_leaves_nothing_behind_its_client() {
    changes_that_are_cut_off::<shm::Forge>(ForgeOptions::default().for_capacity(128 << 20));
    changes_that_are_cut_off::<shm::Ditto>(DittoOptions::default().for_capacity(128 << 20));
}
