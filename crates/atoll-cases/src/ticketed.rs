//! The history of one thread whose operations are stamped with tickets that all threads draw, so
//! that the histories of all threads merge into one.

use crate::load::Recorder;
use atoll_sim::history::{Call, Event, Outcome, Window};
use atoll_sim::linearizability::Span;
use std::cell::RefCell;

/// Records one thread's operations.
pub struct Ticketed<T> {
    events: RefCell<Vec<Event>>,
    /// Draws a ticket: of two tickets the one that was drawn first is lower.
    ticket: T,
}

impl<T: Fn() -> u64> Ticketed<T> {
    /// One with no operations, which draws tickets so.
    pub fn new(ticket: T) -> Self {
        Self { events: RefCell::default(), ticket }
    }

    /// What was recorded.
    pub fn into_events(self) -> Vec<Event> {
        self.events.into_inner()
    }

    /// A client is known to have been shut out: what it has under way has happened by now, or never
    /// does.
    pub fn shut_out(&self, client: u32) {
        let stamp = (self.ticket)();
        let is_open =
            |event: &&mut Event| event.client == client && event.outcome.is_none() && event.span.fenced.is_none();
        self.events.borrow_mut().iter_mut().filter(is_open).for_each(|event| event.span.fenced = Some(stamp));
    }
}

impl<T: Fn() -> u64> Recorder for Ticketed<T> {
    type Pending = usize;

    fn begin(&self, client: u32, key: &[u8], call: Call) -> usize {
        let span = Span { invoked: (self.ticket)(), returned: None, fenced: None };
        let mut events = self.events.borrow_mut();
        events.push(Event { client, key: key.to_vec(), call, outcome: None, span, window: Window::ANY });
        events.len() - 1
    }

    fn end(&self, pending: usize, outcome: Outcome) {
        let stamp = (self.ticket)();
        let event = &mut self.events.borrow_mut()[pending];
        (event.outcome, event.span.returned) = (Some(outcome), Some(stamp));
    }

    fn over(&self, pending: usize) {
        let stamp = (self.ticket)();
        self.events.borrow_mut()[pending].span.fenced = Some(stamp);
    }
}
