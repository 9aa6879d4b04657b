//! What the evictor of a process and the process's writers share.
//!
//! An **evictor** is a client whose only work is to make room ahead of need: see
//! [`Pooled::evict_ahead`](crate::Pooled::evict_ahead). It puts the chunks that it empties back to
//! the pool's free chunks, where any client may allocate them. The thread that drives it is the
//! facade's. Writers of the same process tell it when to work, by what rule, and how it is awake:
//!
//! | who | does |
//! |---|---|
//! | driver | [attends](Reserve::attend), lets the evictor step while chunks are short, then lets it [sleep](Reserve::sleep) |
//! | evictor | offers the chunks that it has freed, and hands over what it has counted |
//! | writer | allocates an offered chunk if it is still free, and wakes the evictor if chunks are short |
//!
//! All of this is hints. A writer that finds no offered chunk searches for a free one, or makes
//! room itself. So an evictor that dies, stands still or never existed does no harm.

use crate::Stats;
use atoll_pool::ChunkId;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Chunks that an evictor can offer at a time: two cache lines.
const OFFERS_MAX: usize = 16;

/// The state that an evictor and its process's writers share.
#[derive(Debug, Default)]
pub struct Reserve {
    /// Wakes the driver. `None` without one.
    waker: Mutex<Option<Waker>>,
    /// Whether there is a driver.
    is_attended: AtomicBool,
    /// Whether the driver sleeps until a writer wakes it.
    is_asleep: AtomicBool,
    /// Whether the writer that was short of chunks last makes all room itself.
    is_refused: AtomicBool,
    // The fields above hardly change; an evictor changes those below with every step.
    /// Chunks that the evictor has freed: one more than the number, and the generation. 0 for none.
    offers: Lines<[AtomicU64; OFFERS_MAX]>,
    handed: Lines<Handed>,
}

/// What writers and the evictor hand each other.
#[derive(Debug, Default)]
struct Handed {
    /// One more than the number of the rule that a writer follows; 0 before the first.
    rule: AtomicU8,
    /// Objects that live in an evicted group, on the mean, in the engine's fraction.
    live_objects: AtomicU64,
    /// What the evictor has counted and no writer has taken yet.
    counted: Mutex<Stats>,
    /// Whether `counted` has anything. It changes under that lock.
    has_counted: AtomicBool,
}

/// Cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lines<T>(T);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reserve {
    /// Registers the driver of an evictor, which `waker` wakes. `false` if there is one already.
    pub fn attend(&self, waker: Waker) -> bool {
        let mut registered = lock(&self.waker);
        let is_free = registered.is_none();
        if is_free {
            *registered = Some(waker);
            self.is_attended.store(true, Relaxed);
        }
        is_free
    }

    /// Removes the driver.
    pub fn leave(&self) {
        let mut registered = lock(&self.waker);
        *registered = None;
        self.is_attended.store(false, Relaxed);
        self.is_asleep.store(false, SeqCst);
    }

    /// Whether there is a driver.
    #[inline]
    pub fn is_attended(&self) -> bool {
        self.is_attended.load(Relaxed)
    }

    /// Announces that the driver sleeps until it is woken. The driver looks once more whether
    /// chunks are short, and then sleeps.
    pub fn sleep(&self) {
        self.is_asleep.store(true, SeqCst);
    }

    /// Whether no writer has woken the driver since it announced that it sleeps.
    pub fn is_asleep(&self) -> bool {
        self.is_asleep.load(SeqCst)
    }

    /// Notes whether a writer that is short of chunks makes all room itself: its program asks for
    /// the removals, which an evictor would keep to itself.
    pub(crate) fn refuse(&self, is_refused: bool) {
        if self.is_refused() != is_refused {
            self.is_refused.store(is_refused, Relaxed);
        }
    }

    /// Whether the evictor is to leave all room to the writers.
    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Relaxed)
    }

    /// Wakes the driver if it sleeps.
    pub(crate) fn wake(&self) {
        if self.is_asleep() && self.is_asleep.swap(false, SeqCst) {
            let waker = lock(&self.waker).clone();
            waker.iter().for_each(Waker::wake_by_ref);
        }
    }

    /// Offers a chunk that is free in this generation.
    pub(crate) fn offer(&self, (ChunkId(chunk), generation): (ChunkId, u32)) {
        let word = (u64::from(chunk) + 1) << 32 | u64::from(generation);
        for offer in &self.offers.0 {
            if offer.load(Relaxed) == 0 && offer.compare_exchange(0, word, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Takes an offer.
    pub(crate) fn take_offer(&self) -> Option<(ChunkId, u32)> {
        let taken = self.offers.0.iter().find_map(|offer| match offer.load(Relaxed) {
            0 => None,
            _ => Some(offer.swap(0, Relaxed)).filter(|word| *word != 0),
        })?;
        Some((ChunkId((taken >> 32) as u32 - 1), taken as u32))
    }

    /// Notes the rule that a writer follows, by its number.
    pub(crate) fn note_rule(&self, rule: usize) {
        let rule = rule as u8 + 1;
        if self.handed.0.rule.load(Relaxed) != rule {
            self.handed.0.rule.store(rule, Relaxed);
        }
    }

    /// The rule that a writer follows.
    pub(crate) fn rule(&self) -> Option<usize> {
        usize::from(self.handed.0.rule.load(Relaxed)).checked_sub(1)
    }

    /// Notes how many objects live in an evicted group.
    pub(crate) fn note_live_objects(&self, mean: u64) {
        self.handed.0.live_objects.store(mean, Relaxed);
    }

    /// How many objects live in an evicted group; 0 before the first.
    pub(crate) fn live_objects(&self) -> u64 {
        self.handed.0.live_objects.load(Relaxed)
    }

    /// Hands over what the evictor has counted.
    pub(crate) fn hand_over(&self, counted: &Stats) {
        if *counted == Stats::default() {
            return;
        }
        let mut all = lock(&self.handed.0.counted);
        all.add(counted);
        self.handed.0.has_counted.store(true, Relaxed);
    }

    /// Takes what the evictor has counted, unless the evictor is handing over more. An evictor may
    /// stand still at that.
    pub(crate) fn take_counted(&self) -> Option<Stats> {
        if !self.handed.0.has_counted.load(Relaxed) {
            return None;
        }
        let mut counted = self.handed.0.counted.try_lock().ok()?;
        self.handed.0.has_counted.store(false, Relaxed);
        Some(std::mem::take(&mut *counted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_driver_is_woken_once_for_each_sleep_and_only_one_attends() {
        let (reserve, woken) = (Reserve::default(), Arc::new(Woken::default()));
        assert!(!reserve.is_attended() && reserve.attend(woken.clone().into()));
        assert!(!reserve.attend(Waker::noop().clone()), "there is one");
        reserve.wake();
        assert_eq!(woken.0.load(Relaxed), 0, "it is awake");
        reserve.sleep();
        (0..3).for_each(|_| reserve.wake());
        assert_eq!(woken.0.load(Relaxed), 1);
        reserve.sleep();
        reserve.leave();
        reserve.wake();
        assert_eq!(woken.0.load(Relaxed), 1);
        assert!(reserve.attend(woken.into()));
    }

    #[test]
    fn an_offer_is_taken_once_and_too_many_are_forgotten() {
        let reserve = Reserve::default();
        (0..2 * OFFERS_MAX as u32).for_each(|chunk| reserve.offer((ChunkId(chunk), u32::MAX - chunk)));
        let taken: Vec<_> = std::iter::from_fn(|| reserve.take_offer()).collect();
        let offered: Vec<_> = (0..OFFERS_MAX as u32).map(|chunk| (ChunkId(chunk), u32::MAX - chunk)).collect();
        assert_eq!(taken, offered);
    }

    #[test]
    fn what_an_evictor_counted_is_taken_once() {
        let reserve = Reserve::default();
        assert_eq!(reserve.take_counted(), None);
        (0..2).for_each(|_| reserve.hand_over(&Stats { evictions: 3, ..Stats::default() }));
        assert_eq!(reserve.take_counted().map(|counted| counted.evictions), Some(6));
        assert_eq!(reserve.take_counted(), None);
    }
}
