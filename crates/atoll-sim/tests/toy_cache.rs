//! How a scenario is written, and proof that the simulator finds what it is for: a toy cache of a
//! few lines is linearizable under all seeds, and every one of the classical mistakes in it is
//! found by some.
//!
//! ```text
//! slot of key k, word k:   address of its object in words, 0 for none
//! object:                  six words, all of them the value
//! ```

use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_sim::history::{Call, Checked, Condition, Evictions, History, Outcome, Violation};
use atoll_sim::{Sim, SimEndpoint, SimOptions, for_each_seed};
use std::cell::RefCell;
use std::rc::Rc;

const KEYS: u64 = 3;
const WORDS: usize = 6;
const NEXT_OBJECT: u64 = 63;
const OBJECTS: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// An object is overwritten where it stands.
    InPlace,
    /// The room of a replaced object is used again at once, while a late reader may still be in it.
    ReuseAtOnce,
    /// The object is written unawaited, and its slot changed without a flush.
    NoFlush,
    /// The swap of the slot is in front of the object in the batch.
    PublishedFirst,
    /// A set-if-absent looks, and then writes.
    LookThenWrite,
    /// An increment writes the slot without asking whether it is still what it read.
    LostUpdate,
}

struct Toy {
    endpoint: SimEndpoint,
    mistake: Mistake,
    /// Objects that this client replaced.
    free: Vec<u64>,
}

fn word(index: u64) -> Address {
    Address::new(0, 0, 8 * index)
}

impl Toy {
    async fn get(&self, key: u64) -> (u64, Option<Vec<u8>>) {
        let mut batch = Batch::new();
        let slot = batch.read_word(word(key));
        self.endpoint.post(&mut batch).await.unwrap();
        let at = batch.word(slot);
        if at == 0 {
            return (0, None);
        }
        batch.clear();
        let mut object = Buffer::new();
        object.resize(8 * WORDS);
        let object = batch.read(word(at), object);
        self.endpoint.post(&mut batch).await.unwrap();
        (at, Some(batch.take(object).bytes().to_vec()))
    }

    async fn allocate(&mut self) -> u64 {
        if let Some(at) = self.free.pop() {
            return at;
        }
        let mut batch = Batch::new();
        let number = batch.fetch_and_add(word(NEXT_OBJECT), 1);
        self.endpoint.post(&mut batch).await.unwrap();
        OBJECTS + WORDS as u64 * batch.word(number)
    }

    /// Whether the slot was `old` and refers to an object with `value` now.
    async fn replace(&mut self, key: u64, old: u64, value: u64, blindly: bool) -> bool {
        let mut object = Buffer::new();
        object.resize(8 * WORDS);
        object.words_mut().fill(value);
        let in_place = self.mistake == Mistake::InPlace && old != 0;
        let at = if in_place { old } else { self.allocate().await };
        let mut batch = Batch::new();
        if self.mistake == Mistake::PublishedFirst {
            let swap = batch.compare_and_swap(word(key), old, at);
            batch.write(word(at), object);
            self.endpoint.post(&mut batch).await.unwrap();
            return batch.swapped(swap);
        }
        batch.write(word(at), object);
        if self.mistake == Mistake::NoFlush {
            self.endpoint.post_unawaited(&mut batch);
        }
        if blindly {
            batch.write_word(word(key), at);
            self.endpoint.post(&mut batch).await.unwrap();
            return true;
        }
        let swap = batch.compare_and_swap(word(key), old, at);
        self.endpoint.post(&mut batch).await.unwrap();
        let swapped = batch.swapped(swap);
        if self.mistake == Mistake::ReuseAtOnce {
            self.free.extend(if swapped { (old != 0).then_some(old) } else { Some(at) });
        }
        swapped
    }

    /// The number that stands in the object.
    async fn increment(&mut self, key: u64) -> u64 {
        loop {
            let (old, value) = self.get(key).await;
            let sum = value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().unwrap())) + 1;
            if self.replace(key, old, sum, self.mistake == Mistake::LostUpdate).await {
                return sum;
            }
        }
    }

    async fn set(&mut self, key: u64, value: u64) {
        loop {
            let (old, _) = self.get(key).await;
            if self.replace(key, old, value, false).await {
                return;
            }
        }
    }

    async fn set_if_absent(&mut self, key: u64, value: u64) -> bool {
        let (old, _) = self.get(key).await;
        old == 0 && self.replace(key, 0, value, self.mistake == Mistake::LookThenWrite).await
    }
}

fn bytes(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(WORDS)
}

/// Some clients on few keys. Key 0 is counted, the others are set and read.
fn run(seed: u64, mistake: Mistake) -> Result<Checked, Violation> {
    let sim = Sim::new(SimOptions::new(seed, 1 << 16));
    let history = Rc::new(History::new());
    let sums: Rc<RefCell<Vec<u64>>> = Rc::default();
    for client in 0..4_u32 {
        let (endpoint, history, sums) = (sim.endpoint("toy"), history.clone(), sums.clone());
        let mut toy = Toy { endpoint, mistake, free: Vec::new() };
        sim.spawn(&format!("client {client}"), async move {
            for round in 0..12 {
                let key = toy.endpoint.random() % KEYS;
                let value = u64::from(client) << 32 | round << 16 | key;
                match toy.endpoint.random() % 4 {
                    _ if key == 0 => {
                        let operation = history.begin(client, b"counter", Call::Increment { by: 1 });
                        let sum = toy.increment(0).await;
                        history.end(operation, Outcome::Number(sum as i64));
                        sums.borrow_mut().push(sum);
                    }
                    0 => {
                        let operation = history.begin(client, &key.to_le_bytes(), Call::set(bytes(value)));
                        toy.set(key, value).await;
                        history.end(operation, Outcome::stored(true));
                    }
                    1 => {
                        let call = Call::set_if(bytes(value), Condition::IfAbsent);
                        let operation = history.begin(client, &key.to_le_bytes(), call);
                        let stored = toy.set_if_absent(key, value).await;
                        history.end(operation, Outcome::stored(stored));
                    }
                    _ => {
                        let operation = history.begin(client, &key.to_le_bytes(), Call::Get);
                        let (_, value) = toy.get(key).await;
                        history.end(operation, Outcome::get(value.as_deref()));
                    }
                }
            }
            toy.endpoint.flush().await.unwrap();
        });
    }
    sim.run().unwrap();
    // The toy never evicts.
    history.check_with(Evictions::Never)
}

#[test]
fn the_sound_toy_is_linearizable_under_every_seed() {
    let mut hits = 0;
    for_each_seed(500, |seed| hits += run(seed, Mistake::None).unwrap().hits);
    assert!(hits > 500, "{hits} hits show little");
}

#[test]
fn every_mistake_is_found_by_some_seed() {
    let mistakes = [
        Mistake::InPlace,
        Mistake::ReuseAtOnce,
        Mistake::NoFlush,
        Mistake::PublishedFirst,
        Mistake::LookThenWrite,
        Mistake::LostUpdate,
    ];
    for mistake in mistakes {
        let found = (0..200).filter(|seed| run(*seed, mistake).is_err()).count();
        println!("{mistake:?}: found by {found} of 200 seeds");
        assert!(found > 0, "{mistake:?}");
    }
}
