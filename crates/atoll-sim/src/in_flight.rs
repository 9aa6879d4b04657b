//! Batches in flight: they are posted, their verbs take effect one by one, their completions
//! arrive.

use crate::effect::Effect;
use crate::flight::{Failure, Fate, Flight};
use crate::timers::Due;
use crate::world::World;
use atoll_fabric::batch::Verb;
use std::task::Waker;

impl World {
    /// Lets one effect of a batch happen, or all without interleaving.
    #[inline]
    pub(crate) fn fly(&mut self, lane: u32, id: u32) {
        loop {
            let flight = &mut self.flights[id as usize];
            let effect = flight.step(&mut self.memory, &self.frequencies, &mut self.random);
            let done = flight.is_done();
            self.tally.verbs += u64::from(effect.kind.is_whole());
            self.record(lane, id, Some(effect));
            if self.watch.is_on() {
                self.note_watched(id, effect);
            }
            if done {
                break self.complete(id);
            }
            if self.relaxations.interleave {
                if self.random.chance(self.frequencies.delays.within) {
                    self.hold(id);
                }
                break;
            }
        }
    }

    #[cold]
    pub(crate) fn note_watched(&mut self, id: u32, effect: Effect) {
        let flight = &self.flights[id as usize];
        let (from, bytes) = ((flight.endpoint, (flight.lane, flight.number)), flight.verb(effect.verb.into()).len());
        self.watch.note(&self.memory, self.now_ns, from, effect, bytes);
    }

    /// All effects are made; the completion arrives now, or takes its time.
    #[inline]
    pub(crate) fn complete(&mut self, id: u32) {
        if self.flights[id as usize].lost || self.impaired && self.loses_completion(id) {
            self.flights[id as usize].lost = true;
            self.hold_for(id, self.deadline_ns);
        } else if self.random.chance(self.frequencies.delays.completion) {
            self.hold(id);
        } else {
            self.land(id);
        }
    }

    /// The completion of a batch arrives.
    #[inline]
    pub(crate) fn land(&mut self, id: u32) {
        let error = self.flights[id as usize].lost.then_some(Failure::OutcomeUnknown);
        self.unmoor(id);
        self.arrive(id, error);
    }

    /// A batch leaves the list of its lane.
    #[inline]
    pub(crate) fn unmoor(&mut self, id: u32) {
        let flight = &mut self.flights[id as usize];
        let state = &mut self.lanes[flight.lane as usize];
        if flight.held != 0 {
            flight.held = 0;
            state.held -= 1;
            return;
        }
        let at =
            state.flights.iter().position(|flight| *flight == id).expect("a batch that is not held is in the list");
        state.flights.swap_remove(at);
    }

    /// A batch has ended: the task that waits for it is woken.
    #[inline]
    pub(crate) fn arrive(&mut self, id: u32, error: Option<Failure>) {
        let flight = &mut self.flights[id as usize];
        flight.afloat = false;
        let (lane, posts) = (flight.lane, &mut self.ports[flight.endpoint as usize].posts);
        posts.in_flight -= 1;
        let room = posts.in_flight + 1 == self.limits.batches_max;
        let fate = std::mem::replace(&mut flight.fate, Fate::Landed);
        let flushed = matches!(fate, Fate::Unawaited) && {
            if let Some(error) = error {
                posts.error.get_or_insert(error.into());
            }
            posts.unawaited -= 1;
            posts.unawaited == 0
        };
        if room || flushed {
            self.agenda.woke |= !posts.waiters.is_empty();
            self.agenda.attention |= self.agenda.woke;
            posts.waiters.drain(..).for_each(Waker::wake);
        }
        if let Some(error) = error {
            flight.fate = Fate::Failed(error);
        }
        match fate {
            Fate::Awaited(None) => self.wake(lane),
            Fate::Awaited(Some(waker)) => {
                self.agenda.wake();
                waker.wake();
            }
            Fate::Unawaited | Fate::Abandoned => self.release(id),
            // Its future was woken when this became known.
            Fate::Unknown => flight.fate = Fate::Failed(Failure::OutcomeUnknown),
            Fate::Landed | Fate::Failed(_) => unreachable!("a batch lands once"),
        }
        if self.timed.is_none() {
            self.settle(lane);
        }
    }

    /// Keeps a batch back for a while.
    #[cold]
    pub(crate) fn hold(&mut self, id: u32) {
        let ns = self.frequencies.delays.ns(&mut self.random);
        self.hold_for(id, ns);
    }

    /// Keeps a batch back for `ns`, whatever held it back before.
    #[cold]
    pub(crate) fn hold_for(&mut self, id: u32, ns: u64) {
        let lane = self.flights[id as usize].lane;
        self.unmoor(id);
        self.lanes[lane as usize].held += 1;
        self.add_timer(ns, Due::Flight(id));
        self.flights[id as usize].held = self.timers_made;
        self.settle(lane);
    }

    /// Sends checked verbs off.
    pub(crate) fn launch(&mut self, endpoint: u32, verbs: &mut [Verb], fate: Fate) -> u32 {
        let lane = self.polled.expect("a batch is posted by a spawned task: see Sim::spawn");
        let unawaited = matches!(fate, Fate::Unawaited);
        let id = self.flights_free.pop().unwrap_or_else(|| {
            self.flights.push(Flight::empty());
            self.flights.len() as u32 - 1
        });
        let flight = &mut self.flights[id as usize];
        flight.board(verbs, self.relaxations);
        (flight.lane, flight.endpoint, flight.fate) = (lane, endpoint, fate);
        let state = &mut self.lanes[lane as usize];
        flight.number = state.launches;
        state.launches += 1;
        let port = &mut self.ports[endpoint as usize];
        port.lane = lane;
        port.posts.in_flight += 1;
        port.posts.unawaited += usize::from(unawaited);
        if self.timed.is_some() {
            self.launch_timed(lane, endpoint, id);
            return id;
        }
        state.flights.push(id);
        let number = state.launches - 1;
        self.settle(lane);
        self.enables_batch(id, number);
        let late = if unawaited { self.frequencies.delays.unawaited } else { self.frequencies.delays.post };
        if self.random.chance(late) {
            self.hold(id);
        }
        if self.impaired {
            self.set_off_impaired(id);
        }
        id
    }

    /// A batch that its future waits for, or was dropped with.
    pub(crate) fn flight_mut(&mut self, id: u32) -> &mut Flight {
        &mut self.flights[id as usize]
    }

    /// The slot of a batch that has landed is free again.
    pub(crate) fn release(&mut self, id: u32) {
        self.flights[id as usize].clear();
        self.flights_free.push(id);
    }
}
