//! Histories of clients in several processes. Every stamp is a ticket from one shared word, and a
//! client sends its records to the checking process as a string of words.

use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_fabric::{Address, Batch, Endpoint, run_ready};
use atoll_sim::history::{Call, Condition, Event, Expiry, Outcome, Seen, Window};
use atoll_sim::linearizability::Span;
use std::sync::Arc;

/// Bytes of the region that holds the word of tickets.
pub(crate) const REGION_BYTES: u64 = 4096;

/// Draws tickets from that region.
pub(crate) fn tickets(region: Arc<ShmRegion>) -> impl Fn() -> u64 {
    let endpoint = ShmEndpoint::new(region);
    move || {
        let mut batch = Batch::new();
        let ticket = batch.fetch_and_add(Address::new(0, 0, 0), 1);
        run_ready(endpoint.post(&mut batch)).expect("the word is there");
        batch.word(ticket)
    }
}

/// Events as bytes, for [`decode`].
pub(crate) fn encode(events: &[Event]) -> Vec<u8> {
    let mut writer = Writer(Vec::new());
    events.iter().for_each(|event| writer.event(event));
    writer.0
}

/// The events that a client wrote.
pub(crate) fn decode(bytes: &[u8]) -> Vec<Event> {
    let mut reader = Reader(bytes);
    let mut events = Vec::new();
    while !reader.0.is_empty() {
        events.push(reader.event());
    }
    events
}

struct Writer(Vec<u8>);

impl Writer {
    fn word(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn option<T>(&mut self, option: Option<T>, some: impl FnOnce(&mut Self, T)) {
        self.word(option.is_some().into());
        if let Some(value) = option {
            some(self, value);
        }
    }

    fn seen(&mut self, seen: &Seen) {
        match seen {
            Seen::Nothing => self.word(0),
            Seen::Absent => self.word(1),
            Seen::Present { value, token } => {
                self.word(2);
                self.option(value.as_deref(), Self::bytes);
                self.option(*token, Self::word);
            }
        }
    }

    fn expiry(&mut self, expiry: Expiry) {
        let (code, ms) = match expiry {
            Expiry::Never => (0, 0),
            Expiry::Keep => (1, 0),
            Expiry::AtMs(ms) => (2, ms),
            Expiry::InMs(ms) => (3, ms),
        };
        self.word(code);
        self.word(ms);
    }

    fn event(&mut self, event: &Event) {
        self.word(event.client.into());
        self.bytes(&event.key);
        self.word(event.span.invoked);
        self.option(event.span.returned, Self::word);
        match &event.call {
            Call::Get => self.word(0),
            Call::Delete => self.word(1),
            Call::Expire { expiry } => {
                self.word(2);
                self.expiry(*expiry);
            }
            Call::Increment { by } => {
                self.word(3);
                self.word(*by as u64);
            }
            Call::Append { suffix } => {
                self.word(4);
                self.bytes(suffix);
            }
            Call::Set { value, condition, expiry } => {
                let (code, token) = match condition {
                    Condition::Always => (5, 0),
                    Condition::IfAbsent => (6, 0),
                    Condition::IfPresent => (7, 0),
                    Condition::IfToken(token) => (8, *token),
                };
                self.word(code);
                self.word(token);
                self.bytes(value);
                self.expiry(*expiry);
            }
            call => unimplemented!("the load has no {call:?}"),
        }
        self.option(event.outcome.as_ref(), Self::outcome);
    }

    fn outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Seen(seen) => {
                self.word(0);
                self.seen(seen);
            }
            Outcome::Set { stored, seen, token } => {
                self.word(1);
                self.word((*stored).into());
                self.seen(seen);
                self.option(*token, Self::word);
            }
            Outcome::Removed => self.word(2),
            Outcome::Number(number) => {
                self.word(3);
                self.word(*number as u64);
            }
            Outcome::NotANumber => self.word(4),
            Outcome::Overflow => self.word(5),
            Outcome::Length(length) => {
                self.word(6);
                self.word(*length as u64);
            }
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn word(&mut self) -> u64 {
        let (word, rest) = self.0.split_first_chunk().expect("a client wrote whole events");
        self.0 = rest;
        u64::from_le_bytes(*word)
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = self.word() as usize;
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes.to_vec()
    }

    fn option<T>(&mut self, some: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.word() != 0).then(|| some(self))
    }

    fn seen(&mut self) -> Seen {
        match self.word() {
            0 => Seen::Nothing,
            1 => Seen::Absent,
            _ => Seen::Present { value: self.option(Self::bytes), token: self.option(Self::word) },
        }
    }

    fn expiry(&mut self) -> Expiry {
        let (code, ms) = (self.word(), self.word());
        match code {
            0 => Expiry::Never,
            1 => Expiry::Keep,
            2 => Expiry::AtMs(ms),
            _ => Expiry::InMs(ms),
        }
    }

    fn event(&mut self) -> Event {
        let (client, key, invoked) = (self.word() as u32, self.bytes(), self.word());
        let span = Span { invoked, returned: self.option(Self::word), fenced: None };
        let call = match self.word() {
            0 => Call::Get,
            1 => Call::Delete,
            2 => Call::Expire { expiry: self.expiry() },
            3 => Call::Increment { by: self.word() as i64 },
            4 => Call::Append { suffix: self.bytes() },
            code => {
                let token = self.word();
                let condition = match code {
                    5 => Condition::Always,
                    6 => Condition::IfAbsent,
                    7 => Condition::IfPresent,
                    _ => Condition::IfToken(token),
                };
                Call::Set { value: self.bytes(), condition, expiry: self.expiry() }
            }
        };
        Event { client, key, call, outcome: self.option(Self::outcome), span, window: Window::ANY }
    }

    fn outcome(&mut self) -> Outcome {
        match self.word() {
            0 => Outcome::Seen(self.seen()),
            1 => Outcome::Set { stored: self.word() != 0, seen: self.seen(), token: self.option(Self::word) },
            2 => Outcome::Removed,
            3 => Outcome::Number(self.word() as i64),
            4 => Outcome::NotANumber,
            5 => Outcome::Overflow,
            _ => Outcome::Length(self.word() as usize),
        }
    }
}
