//! The check of a regular register: a read returns what a write has written that no other write
//! replaced before the read began.
//!
//! A write replaces another if it began after the other was complete. A write that never returned
//! is never complete, so nothing that began later is known to follow it.

use atoll_sim::history::{Call, Event, Outcome, Seen};
use std::collections::BTreeMap;

struct Written<'a> {
    value: &'a [u8],
    invoked: u64,
    returned: u64,
}

/// What a read returned.
fn value_read(event: &Event) -> Option<&[u8]> {
    match (&event.call, &event.outcome) {
        (Call::Get, Some(Outcome::Seen(Seen::Present { value: Some(value), .. }))) => Some(value),
        _ => None,
    }
}

/// Whether every read of a history is regular. Values of writes of one key differ.
pub(crate) fn check(events: &[Event]) -> Result<(), String> {
    let mut keys: BTreeMap<&[u8], Vec<&Event>> = BTreeMap::new();
    for event in events {
        keys.entry(&event.key).or_default().push(event);
    }
    for events in keys.values() {
        let written = |event: &&&Event| matches!(event.call, Call::Set { .. });
        let writes: Vec<Written> = events
            .iter()
            .filter(written)
            .map(|event| {
                let Call::Set { value, .. } = &event.call else { unreachable!("a write") };
                Written { value, invoked: event.span.invoked, returned: event.span.returned.unwrap_or(u64::MAX) }
            })
            .collect();
        for read in events {
            let Some(value) = value_read(read) else { continue };
            let (from, to) = (read.span.invoked, read.span.returned.unwrap_or(u64::MAX));
            let Some(write) = writes.iter().find(|write| write.value == value) else {
                return Err(format!("a read returned {value:?}, which no client wrote"));
            };
            if write.invoked > to {
                return Err(format!("a read returned {value:?} before it was written"));
            }
            let newer = writes.iter().find(|newer| newer.invoked > write.returned && newer.returned < from);
            if let Some(newer) = newer {
                return Err(format!(
                    "client {} read the old {value:?} at {from} to {to}: {:?} was written at {} to {}, after {} to {}",
                    read.client, newer.value, newer.invoked, newer.returned, write.invoked, write.returned
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use atoll_sim::History;
    use atoll_sim::history::{Call, Outcome};

    #[test]
    fn old_values_are_refused_and_values_of_writes_under_way_are_not() {
        let history = History::new();
        let first = history.begin(0, b"k", Call::set(b"1"));
        history.end(first, Outcome::stored(true));
        let second = history.begin(0, b"k", Call::set(b"2"));
        for value in [b"2", b"1"] {
            let read = history.begin(1, b"k", Call::Get);
            history.end(read, Outcome::get(Some(value)));
        }
        assert_eq!(check(&history.events()), Ok(()), "the second write is under way");
        assert!(history.check().is_err(), "which is not linearizable");
        history.end(second, Outcome::stored(true));
        let read = history.begin(1, b"k", Call::Get);
        history.end(read, Outcome::get(Some(b"1")));
        assert!(check(&history.events()).unwrap_err().contains("old"));
    }
}
