//! Near caches of handles that stand for processes: what one changes, no other one serves as it
//! was. Handles that ask for near caches of one size share one, as processes of a host do.

use atoll::{Expiry, OpenError, Pool, PoolOptions, SetOptions};
use atoll_fabric::shm::fork;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KEYS: u64 = 4;
const TIME: Duration = Duration::from_millis(1500);
const BYTES: u64 = 1 << 20;

fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// Reads keys at random; every value is at least as new as the last change that had ended before.
fn read(pool: &Pool, written: &[AtomicU64], has_ended: &AtomicBool) -> u64 {
    let mut client = pool.client().unwrap();
    let mut number = 0_u64;
    while !has_ended.load(Ordering::Relaxed) {
        number += 1;
        let index = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62;
        let least = written[index as usize].load(Ordering::SeqCst);
        // A key that is removed meanwhile is absent.
        if let Some(value) = client.get(&key(index)).unwrap() {
            let found = u64::from_le_bytes(value[..8].try_into().unwrap());
            assert!(found >= least, "{found} after {least} was written");
            assert_eq!(value, [&found.to_le_bytes()[..], &[found as u8; 300]].concat());
        }
    }
    client.stats().near_hits
}

/// Changes keys now and then, in every way.
fn write(pool: &Pool, written: &[AtomicU64], has_ended: &AtomicBool) {
    let mut client = pool.client().unwrap();
    let begun = Instant::now();
    for number in 1_u64.. {
        if begun.elapsed() > TIME {
            break;
        }
        let index = number % KEYS;
        match number % 7 {
            3 => drop(client.delete(&key(index)).unwrap()),
            5 => drop(client.flush().unwrap()),
            _ => {
                let value = [&number.to_le_bytes()[..], &[number as u8; 300]].concat();
                client.set(&key(index), &value).unwrap();
                written[index as usize].store(number, Ordering::SeqCst);
            }
        }
        std::thread::sleep(Duration::from_micros(number % 5 * 400));
    }
    has_ended.store(true, Ordering::Relaxed);
}

#[test]
fn what_one_process_changes_no_near_cache_of_another_serves_as_it_was() {
    let name = format!("shm:/atoll-near-{}", std::process::id());
    let made = Pool::create(&name, &PoolOptions::default().capacity_bytes(8 << 20)).unwrap();
    // The last two share a near cache.
    let readers = [BYTES, 2 * BYTES, 2 * BYTES].map(|bytes| {
        let reader = Pool::open(&name).unwrap();
        reader.near(bytes).unwrap();
        reader
    });
    let (written, has_ended) = ([const { AtomicU64::new(0) }; KEYS as usize], AtomicBool::new(false));
    let hits: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = [&readers[0], &readers[0], &readers[1], &readers[2]]
            .map(|reader| scope.spawn(|| read(reader, &written, &has_ended)))
            .into_iter()
            .collect();
        // The writer has none.
        write(&made, &written, &has_ended);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(hits > 1000, "{hits} near hits");
    drop((readers, made));
    Pool::remove(&name).unwrap();
}

#[test]
fn processes_of_a_host_share_a_near_cache_and_go_on_when_one_ends() {
    let name = format!("shm:/atoll-near-shared-{}", std::process::id());
    let made = Pool::create(&name, &PoolOptions::default().capacity_bytes(8 << 20)).unwrap();
    let mut writer = made.client().unwrap();
    (0..100).for_each(|number| writer.set(&key(number), &[number as u8; 500]).unwrap());
    let open = || {
        let pool = Pool::open(&name).unwrap();
        pool.near(BYTES).unwrap();
        pool
    };
    let read = |client: &mut atoll::Client| {
        for number in 0..100 {
            assert_eq!(client.get(&key(number)).unwrap(), Some(&[number as u8; 500][..]));
        }
        client.stats().near_hits
    };
    let first = open();
    assert!(first.near_cache().unwrap().expect("it was asked for").is_of_host());
    let mut maker = first.client().unwrap();
    (0..4).for_each(|_| _ = read(&mut maker));
    let second = open();
    let mut other = second.client().unwrap();
    let hits = read(&mut other);
    assert!(hits >= 90, "{hits} of 100 hits of copies that another process made");
    writer.set(&key(7), b"changed").unwrap();
    assert_eq!(other.get(&key(7)).unwrap(), Some(&b"changed"[..]));
    writer.set(&key(7), &[7; 500]).unwrap();
    // The first exported the words: with it all copies end, and the second makes its own.
    drop((maker, first));
    let before = read(&mut other);
    (0..6).for_each(|_| _ = read(&mut other));
    assert!(other.stats().near_hits > before + 300, "{} after {before}", other.stats().near_hits);
    drop((other, second));
    assert!(open().near_cache().unwrap().is_some_and(|cache| cache.copies() == 0), "the last one removed it");
    drop((writer, made));
    Pool::remove(&name).unwrap();
}

/// A fork that drops the clients of its parent ends nothing of them.
#[test]
fn a_fork_leaves_the_near_cache_of_its_parent_as_it_is() {
    let name = format!("shm:/atoll-near-fork-{}", std::process::id());
    let made = Pool::create(&name, &PoolOptions::default().capacity_bytes(8 << 20)).unwrap();
    let pool = Pool::open(&name).unwrap();
    pool.near(1 << 16).unwrap();
    let mut writer = made.client().unwrap();
    let value = |number: u64| vec![number as u8; 100 + number as usize];
    (0..100).for_each(|number| writer.set(&key(number), &value(number)).unwrap());
    let clients = RefCell::new(Some([(); 2].map(|()| pool.client().unwrap())));
    let read = |numbers: std::ops::Range<u64>, rounds: usize| {
        let mut clients = clients.borrow_mut();
        let [one, other] = clients.as_mut().unwrap();
        for _ in 0..rounds {
            for number in numbers.clone() {
                for client in [&mut *one, &mut *other] {
                    assert_eq!(client.get(&key(number)).unwrap(), Some(&value(number)[..]));
                }
            }
        }
        [one.stats().near_hits, other.stats().near_hits]
    };
    let before = read(0..30, 6);
    let status = fork::in_fork(|| {
        drop(clients.take());
        5
    });
    assert_eq!(status.unwrap(), 5);
    let after = read(0..30, 1);
    // Of some hits the pool is told instead.
    assert!(after.iter().zip(before).all(|(after, before)| after - before >= 25), "{before:?}, {after:?}");
    read(0..100, 10);
    clients.take();
    drop((pool, writer, made));
    Pool::remove(&name).unwrap();
}

#[test]
fn a_near_cache_goes_on_when_the_client_that_exported_its_words_has_left() {
    let pool = Pool::anonymous(&PoolOptions::default().capacity_bytes(4 << 20)).unwrap();
    pool.near(BYTES).unwrap();
    let mut writer = pool.client().unwrap();
    for round in 0..5_u8 {
        writer.set(b"key", &[round; 100]).unwrap();
        let mut client = pool.client().unwrap();
        for _ in 0..200 {
            assert_eq!(client.get(b"key").unwrap(), Some(&[round; 100][..]));
        }
        assert!(client.stats().near_hits > 50, "round {round}: {}", client.stats().near_hits);
    }
    let cache = pool.near_cache().unwrap().expect("it was asked for");
    assert!(cache.copies() > 0 && cache.bytes() < BYTES);
}

#[test]
fn what_expires_expires_near_as_well_and_a_near_cache_keeps_its_limit() {
    let pool = Pool::anonymous(&PoolOptions::default().capacity_bytes(16 << 20)).unwrap();
    pool.near(BYTES).unwrap();
    let mut client = pool.client().unwrap();
    let options = SetOptions { expiry: Expiry::InMs(1000), ..SetOptions::default() };
    let begun = Instant::now();
    client.set_with(b"brief", b"value", &options).unwrap();
    let mut found = true;
    while found {
        found = client.get(b"brief").unwrap().is_some();
        assert!(begun.elapsed() < Duration::from_secs(10), "it never expires");
    }
    assert!(begun.elapsed() >= Duration::from_secs(1) && client.stats().near_hits > 0);
    for number in 0..5000_u64 {
        client.set(&key(number), &[7; 1000]).unwrap();
        (0..3).for_each(|_| assert!(client.get(&key(number)).unwrap().is_some()));
    }
    let cache = pool.near_cache().unwrap().expect("it was asked for");
    assert!((100..BYTES / 1000).contains(&cache.copies()) && cache.bytes() <= BYTES, "{cache:?}");
}

#[test]
fn a_near_cache_that_is_too_small_is_refused_and_there_is_none_then() {
    let pool = Pool::anonymous(&PoolOptions::default().capacity_bytes(4 << 20)).unwrap();
    let refused = pool.near(1000).unwrap_err();
    assert!(matches!(refused, OpenError::Near(_)) && refused.to_string().contains("65536"), "{refused}");
    assert!(pool.near_cache().unwrap().is_none());
}

/// With so many words that some objects share one.
#[test]
fn copies_that_end_for_the_sake_of_other_objects_are_counted_apart() {
    const OBJECTS: u64 = 100;
    let pool = Pool::anonymous(&PoolOptions::default().capacity_bytes(4 << 20)).unwrap();
    pool.near(1 << 16).unwrap();
    let (mut writer, mut client) = (pool.client().unwrap(), pool.client().unwrap());
    (0..OBJECTS).for_each(|number| writer.set(&key(number), b"before").unwrap());
    for _ in 0..20 {
        (0..OBJECTS).for_each(|number| assert!(client.get(&key(number)).unwrap().is_some()));
    }
    let changed = OBJECTS / 2;
    (0..changed).for_each(|number| writer.set(&key(number), b"after").unwrap());
    let keys: Vec<_> = (0..OBJECTS).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let (by_one, by_many) = keys.split_at(25);
    by_one.iter().for_each(|key| _ = client.get(key).unwrap());
    client.get_many(by_many, |_, _| {}).unwrap();
    let stats = client.stats();
    let (outdated, spurious) = (stats.near_outdated, stats.near_spurious);
    assert!(spurious > 0 && outdated - spurious <= changed, "{outdated} were outdated, {spurious} of them spuriously");
    assert!(outdated - spurious > changed / 2, "{outdated} were outdated, {spurious} of them spuriously");
}
