//! The running operations of a client: how many there may be, and when all older ones have ended.
//!
//! Other clients wait for the operations that ran when they began to wait ([`Grace`]). A client
//! announces by its rounds which operations have ended. Its operations may overlap, so it counts
//! them by **eras**. An operation belongs to the era in which it began. An era ends
//! ([`InFlight::turn`]) when no operation of the previous era is left. A client announces a round
//! after an era has ended and the verbs posted in it have landed. In between:
//!
//! ```text
//! era           | 7            | 8                | 9                 | 10
//! ends when     |   none of 6  |       none of 7  |        none of 8  |
//! announced     |           7'         8'         |   9'              | 10'
//! ```
//!
//! Take an operation that runs when 7' is the last announcement. It began before 8' was announced,
//! so before era 9 began: in era 8 at the latest. Era 10 begins when no operation of era 8 is left.
//! So **three announcements later** an older operation has ended. If a client runs only one
//! operation from the end of the era to the announcement, it announces three rounds at once.
//!
//! An operation that waits for other clients stands aside ([`InFlight::leave`]), if it remembers
//! nothing. It returns as if it began anew. An operation that must be counted meanwhile, but relies
//! on nothing that it has seen, moves to the present era ([`InFlight::renew`]).
//!
//! [`Grace`]: crate::registry::Grace

use crate::waiters::Waiters;
use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

/// The most operations of a client that run at once. Further ones wait.
pub const OPERATIONS_MAX: u32 = 64;
/// Rounds after which older operations have ended.
pub const ROUNDS_PROVING: u32 = 3;

/// The running operations of a client.
#[derive(Debug, Default)]
pub struct InFlight {
    /// How many belong to this era and to the previous one, by the era's low bit.
    begun: [Cell<u32>; 2],
    era: Cell<u64>,
    /// Operations that began, ever.
    entered: Cell<u64>,
    /// Whether one operation excludes all others.
    is_closed: Cell<bool>,
    /// Operations that wait until they may begin.
    waiting: Waiters,
}

/// The era in which a running operation is counted.
#[derive(Debug, Default)]
pub struct Entry {
    era: Option<u64>,
}

/// The end of an era.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Whether no operation of the previous era was left.
    has_ended: bool,
    /// How many operations had begun, if the one that makes the round was the only one.
    alone: Option<u64>,
}

/// A moment, for operations that ran then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    era: u64,
}

impl InFlight {
    /// How many run.
    #[inline(always)]
    pub fn count(&self) -> u32 {
        self.begun[0].get() + self.begun[1].get()
    }

    /// Begins an operation, unless it has to wait; returns whether it did.
    #[inline(always)]
    pub fn try_enter(&self, entry: &mut Entry) -> bool {
        let may = self.count() < OPERATIONS_MAX && !self.is_closed.get();
        if may {
            let era = self.era.get();
            let begun = &self.begun[(era & 1) as usize];
            begun.set(begun.get() + 1);
            self.entered.set(self.entered.get() + 1);
            debug_assert!(entry.era.is_none(), "an operation begins once");
            debug_assert!(self.count() <= OPERATIONS_MAX, "no more operations than a client may have");
            entry.era = Some(era);
        }
        may
    }

    /// Begins an operation when it may, or lets one return that stands aside.
    pub async fn enter(&self, entry: &mut Entry) {
        poll_fn(|context| match self.try_enter(entry) {
            true => Poll::Ready(()),
            false => {
                self.waiting.note(context.waker());
                Poll::Pending
            }
        })
        .await;
    }

    /// Ends an operation, or lets it stand aside: it relies on nothing that it has READ.
    #[inline(always)]
    pub fn leave(&self, entry: &mut Entry) {
        if let Some(era) = entry.era.take() {
            let begun = &self.begun[(era & 1) as usize];
            begun.set(begun.get() - 1);
            self.waiting.wake();
        }
    }

    /// Moves an operation to the present era: it relies on nothing that it has READ.
    pub fn renew(&self, entry: &mut Entry) {
        if let Some(era) = &mut entry.era {
            let era = std::mem::replace(era, self.era.get());
            let [before, now] = [era, self.era.get()].map(|era| &self.begun[(era & 1) as usize]);
            before.set(before.get() - 1);
            now.set(now.get() + 1);
        }
    }

    /// Ends the era, if it may. Called by an operation that has READ nothing yet.
    pub fn turn(&self) -> Turn {
        let era = self.era.get();
        let is_alone = self.count() <= 1;
        let has_ended = is_alone || self.begun[(era & 1 ^ 1) as usize].get() == 0;
        if has_ended {
            self.era.set(era + 1);
        }
        Turn { has_ended, alone: is_alone.then(|| self.entered.get()) }
    }

    /// How many rounds to announce after an era's end, once the verbs of its operations have
    /// landed.
    pub fn rounds(&self, turn: Turn) -> u32 {
        match turn {
            Turn { alone: Some(entered), .. } if entered == self.entered.get() => ROUNDS_PROVING,
            Turn { has_ended, .. } => has_ended.into(),
        }
    }

    /// Now.
    pub fn moment(&self) -> Moment {
        Moment { era: self.era.get() }
    }

    /// Whether all operations have ended that ran then, except the caller's.
    pub fn have_ended(&self, since: Moment) -> bool {
        self.count() <= 1 || self.era.get() >= since.era + 2
    }

    /// Excludes all other operations, if the caller's is the only one.
    pub fn close(&self) -> Option<Closed<'_>> {
        (self.count() <= 1 && !self.is_closed.replace(true)).then(|| Closed { of: self })
    }

    /// Excludes all other operations, once the caller's is the only one.
    pub async fn closed(&self) -> Closed<'_> {
        poll_fn(|context| match self.close() {
            Some(closed) => Poll::Ready(closed),
            None => {
                self.waiting.note(context.waker());
                Poll::Pending
            }
        })
        .await
    }
}

/// Excludes all operations but one, until it is dropped.
#[derive(Debug)]
pub struct Closed<'c> {
    of: &'c InFlight,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.of.is_closed.set(false);
        self.of.waiting.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(in_flight: &InFlight) -> Entry {
        let mut entry = Entry::default();
        assert!(in_flight.try_enter(&mut entry));
        entry
    }

    /// Announces a round, made by an operation of its own; returns how many rounds.
    fn round(in_flight: &InFlight) -> u32 {
        let mut mover = enter(in_flight);
        let rounds = in_flight.rounds(in_flight.turn());
        in_flight.leave(&mut mover);
        rounds
    }

    #[test]
    fn an_operation_of_before_has_ended_after_as_many_rounds_as_prove_it() {
        let in_flight = InFlight::default();
        assert_eq!(round(&in_flight), ROUNDS_PROVING, "alone");
        let mut long = enter(&in_flight);
        let moment = in_flight.moment();
        let announced: u32 = (0..10).map(|_| round(&in_flight)).sum();
        assert!(announced < ROUNDS_PROVING, "{announced} rounds while it is under way");
        let mut other = enter(&in_flight);
        assert!(!in_flight.have_ended(moment));
        in_flight.leave(&mut long);
        let mut announced = 0;
        while announced < ROUNDS_PROVING {
            // An operation is always running, and never for long.
            let next = enter(&in_flight);
            announced += round(&in_flight);
            in_flight.leave(&mut std::mem::replace(&mut other, next));
        }
        assert!(in_flight.have_ended(moment));
    }

    #[test]
    fn an_operation_that_enters_before_the_announcement_is_not_said_to_have_ended() {
        let in_flight = InFlight::default();
        let mut mover = enter(&in_flight);
        let turn = in_flight.turn();
        let mut late = enter(&in_flight);
        assert_eq!(in_flight.rounds(turn), 1);
        in_flight.leave(&mut mover);
        in_flight.leave(&mut late);
        assert_eq!(in_flight.count(), 0);
    }

    #[test]
    fn one_that_goes_over_holds_no_era_up_and_one_that_stands_aside_is_not_counted() {
        let in_flight = InFlight::default();
        let (mut waits, mut other) = (enter(&in_flight), enter(&in_flight));
        for _ in 0..4 {
            in_flight.renew(&mut waits);
            in_flight.renew(&mut other);
            assert_eq!(round(&in_flight), 1);
        }
        in_flight.leave(&mut waits);
        in_flight.leave(&mut waits);
        assert_eq!(in_flight.count(), 1);
        let closed = in_flight.close().expect("one is left");
        assert!(in_flight.close().is_none() && !in_flight.try_enter(&mut waits));
        drop(closed);
        assert!(in_flight.try_enter(&mut waits));
        assert!(in_flight.close().is_none(), "two are under way");
        assert!(in_flight.close().is_none(), "and nothing is closed by asking");
        in_flight.leave(&mut waits);
        in_flight.leave(&mut other);
    }

    #[test]
    fn no_more_operations_begin_than_may() {
        let in_flight = InFlight::default();
        let mut all: Vec<Entry> = (0..OPERATIONS_MAX).map(|_| enter(&in_flight)).collect();
        let mut more = Entry::default();
        assert!(!in_flight.try_enter(&mut more));
        in_flight.leave(&mut all[5]);
        assert!(in_flight.try_enter(&mut more));
    }
}
