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

use crate::line::Line;
use crate::waiters::Waiters;
use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

/// The most operations of a client that run at once. Further ones wait in line.
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
    /// Operations that wait until they may begin. Those that were let in have a seat.
    line: Line,
    /// Operations that wait until they are the only one.
    closing: Waiters,
    /// Whether an operation has to stand in line: others do, or one excludes all others.
    has_line: Cell<bool>,
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
        let may = self.count() < OPERATIONS_MAX && !self.has_line.get();
        if may {
            self.count_in(entry);
        }
        may
    }

    #[inline(always)]
    fn count_in(&self, entry: &mut Entry) {
        let era = self.era.get();
        let begun = &self.begun[(era & 1) as usize];
        begun.set(begun.get() + 1);
        self.entered.set(self.entered.get() + 1);
        debug_assert!(entry.era.is_none(), "an operation begins once");
        debug_assert!(self.count() <= OPERATIONS_MAX, "no more operations than a client may have");
        entry.era = Some(era);
    }

    /// Begins an operation when it may, or lets one return that stands aside. Those that wait begin
    /// in their order.
    pub async fn enter(&self, entry: &mut Entry) {
        if self.try_enter(entry) {
            return;
        }
        let place = PlaceInLine { number: self.line.join(), of: self };
        self.let_in();
        poll_fn(|context| {
            let is_let_in = self.line.is_let_in(place.number, context.waker());
            if is_let_in && !self.is_closed.get() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.count_in(entry);
    }

    /// Lets in as many as there is room for.
    #[cold]
    fn let_in(&self) {
        let has_room = || self.count() as usize + self.line.let_in() < OPERATIONS_MAX as usize;
        while !self.is_closed.get() && has_room() && self.line.let_next_in() {}
        self.has_line.set(self.is_closed.get() || !self.line.is_empty());
    }

    /// Ends an operation, or lets it stand aside: it relies on nothing that it has READ.
    #[inline(always)]
    pub fn leave(&self, entry: &mut Entry) {
        if let Some(era) = entry.era.take() {
            let begun = &self.begun[(era & 1) as usize];
            begun.set(begun.get() - 1);
            self.closing.wake();
            if self.has_line.get() {
                self.let_in();
            }
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
        (self.count() <= 1 && !self.is_closed.replace(true)).then(|| {
            self.has_line.set(true);
            Closed { of: self }
        })
    }

    /// Excludes all other operations, once the caller's is the only one.
    pub async fn closed(&self) -> Closed<'_> {
        self.closing.until(|| self.close()).await
    }
}

/// An operation's place in line.
struct PlaceInLine<'c> {
    of: &'c InFlight,
    number: u64,
}

impl Drop for PlaceInLine<'_> {
    /// The operation has begun, or its future is dropped. Its seat is the next one's then.
    fn drop(&mut self) {
        self.of.line.leave(self.number);
        self.of.let_in();
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
        self.of.line.wake_let_in();
        self.of.closing.wake();
        self.of.let_in();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Waker};

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

    fn polled(future: &mut Pin<Box<impl Future<Output = ()>>>) -> bool {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn operations_begin_in_their_order_and_those_that_are_dropped_hold_nobody_up() {
        let in_flight = InFlight::default();
        let mut all: Vec<Entry> = (0..OPERATIONS_MAX).map(|_| enter(&in_flight)).collect();
        let mut entries: Vec<Entry> = (0..5).map(|_| Entry::default()).collect();
        let mut waiting: Vec<_> = entries.iter_mut().map(|entry| Box::pin(in_flight.enter(entry))).collect();
        assert!(waiting.iter_mut().all(|each| !polled(each)));
        // The first two have seats now, and one that comes later has none.
        (0..2).for_each(|each| in_flight.leave(&mut all[each]));
        let mut late = Entry::default();
        assert!(!in_flight.try_enter(&mut late));
        // The second and the last are given up, one with a seat and one without.
        drop(waiting.remove(1));
        drop(waiting.pop());
        assert_eq!(waiting.iter_mut().map(polled).collect::<Vec<_>>(), [true, true, false]);
        in_flight.leave(&mut all[2]);
        in_flight.leave(&mut all[3]);
        assert!(polled(waiting.last_mut().unwrap()));
        assert!(in_flight.try_enter(&mut late), "nobody is in line any more");
        assert!(!in_flight.try_enter(&mut all[2]));
    }

    #[test]
    fn one_with_a_seat_waits_while_another_excludes_all() {
        let in_flight = InFlight::default();
        let mut all: Vec<Entry> = (0..OPERATIONS_MAX).map(|_| enter(&in_flight)).collect();
        let mut entry = Entry::default();
        let mut waiting = Box::pin(in_flight.enter(&mut entry));
        assert!(!polled(&mut waiting));
        all.iter_mut().for_each(|each| in_flight.leave(each));
        let closed = in_flight.close().expect("nothing runs");
        assert!(!polled(&mut waiting));
        drop(closed);
        assert!(polled(&mut waiting));
        drop(waiting);
        in_flight.leave(&mut entry);
        assert_eq!(in_flight.count(), 0);
        assert!(in_flight.try_enter(&mut entry));
    }
}
