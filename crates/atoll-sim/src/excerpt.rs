//! A history that went wrong, cut to the part that a reader needs.

use crate::event::{Call, Condition, Event, Expiry, Outcome, Seen, Window};
use crate::linearizability::Verdict;
use crate::sequential::{Evictions, verdict};
use std::fmt::Write;

/// The history as it stood when it first went wrong, without lookups that do not matter; and the
/// operation that returned last.
pub(crate) fn shortest(events: &[Event], evictions: Evictions) -> (Vec<Event>, Event) {
    let mut returns: Vec<u64> = events.iter().filter_map(|event| event.span.returned).collect();
    returns.sort_unstable();
    let until = |stamp: u64| -> Vec<Event> {
        let begun = events.iter().filter(|event| event.span.invoked <= stamp).cloned();
        let cut = |mut event: Event| {
            if event.span.returned.is_some_and(|returned| returned > stamp) {
                (event.span.returned, event.outcome) = (None, None);
                event.window = Window::since(event.window.least_ms);
            }
            event
        };
        begun.map(cut).collect()
    };
    let is_wrong = |events: &[Event]| matches!(verdict(events, evictions), Verdict::Violation(_));
    let good = returns.partition_point(|stamp| !is_wrong(&until(*stamp)));
    let stamp = returns[good.min(returns.len() - 1)];
    let mut shortest = until(stamp);
    for index in (0..shortest.len()).rev() {
        if shortest[index].call == Call::Get && shortest[index].span.returned != Some(stamp) {
            let removed = shortest.remove(index);
            if !is_wrong(&shortest) {
                shortest.insert(index, removed);
            }
        }
    }
    shortest.sort_by_key(|event| event.span.invoked);
    let culprit = shortest.iter().find(|event| event.span.returned == Some(stamp)).expect("it returned then").clone();
    (shortest, culprit)
}

/// How many operations an excerpt shows.
const EXCERPT_LINES_MAX: usize = 40;

pub(crate) fn described(events: &[Event]) -> String {
    let mut lines = String::new();
    let left_out = events.len().saturating_sub(EXCERPT_LINES_MAX);
    if left_out > 0 {
        let _ = writeln!(lines, "  ({left_out} earlier operations left out)");
    }
    for event in &events[left_out..] {
        let returned = match (event.span.returned, event.span.fenced) {
            (Some(stamp), _) => stamp.to_string(),
            (None, Some(stamp)) => format!("shut out at {stamp}"),
            (None, None) => "never".to_owned(),
        };
        let _ = writeln!(lines, "  [{:>6} .. {returned:>6}] {}", event.span.invoked, one_line(event));
    }
    lines
}

pub(crate) fn one_line(event: &Event) -> String {
    let outcome = event.outcome.as_ref().map_or("no outcome".to_owned(), outcome_text);
    let call = match &event.call {
        Call::Get => "get".to_owned(),
        Call::Set { value, condition, expiry } => {
            let condition = match condition {
                Condition::Always => String::new(),
                Condition::IfAbsent => " if absent".to_owned(),
                Condition::IfPresent => " if present".to_owned(),
                Condition::IfToken(token) => format!(" if token {token}"),
            };
            format!("set {}{condition}{}", text(value), expiry_text(*expiry))
        }
        Call::Delete => "delete".to_owned(),
        Call::Expire { expiry } => format!("expire{}", expiry_text(*expiry)),
        Call::Increment { by } => format!("increment by {by}"),
        Call::Append { suffix } => format!("append {}", text(suffix)),
        Call::Prepend { prefix } => format!("prepend {}", text(prefix)),
        Call::SetRange { offset, bytes } => format!("set-range {offset} {}", text(bytes)),
    };
    let judged = match event.window {
        Window::ANY => String::new(),
        Window { least_ms, most_ms: u64::MAX, .. } => format!(", judged from {least_ms} ms on"),
        Window { least_ms, most_ms, counted_ms } if most_ms < counted_ms => {
            format!(", judged from {least_ms} to {most_ms} ms, counted from {counted_ms} ms at the latest")
        }
        Window { least_ms, most_ms, .. } => format!(", judged from {least_ms} to {most_ms} ms"),
    };
    format!("client {}: {call} -> {outcome}{judged}", event.client)
}

fn expiry_text(expiry: Expiry) -> String {
    match expiry {
        Expiry::Never => String::new(),
        Expiry::Keep => " until it would have expired".to_owned(),
        Expiry::AtMs(ms) => format!(" until {ms} ms"),
        Expiry::InMs(ms) => format!(" for {ms} ms"),
    }
}

fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Seen(seen) => seen_text(seen),
        Outcome::Set { stored, seen, token } => {
            let token = token.map_or(String::new(), |token| format!(", token {token}"));
            let seen = if *seen == Seen::Nothing { String::new() } else { format!(", was {}", seen_text(seen)) };
            format!("{}{token}{seen}", if *stored { "stored" } else { "refused" })
        }
        Outcome::Removed => "removed".to_owned(),
        Outcome::Number(number) => number.to_string(),
        Outcome::NotANumber => "not a number".to_owned(),
        Outcome::Overflow => "overflow".to_owned(),
        Outcome::Length(length) => format!("{length} bytes"),
    }
}

fn seen_text(seen: &Seen) -> String {
    match seen {
        Seen::Nothing => "not looked at".to_owned(),
        Seen::Absent => "absent".to_owned(),
        Seen::Present { value, token } => {
            let value = value.as_ref().map_or("present".to_owned(), |value| text(value));
            value + &token.map_or(String::new(), |token| format!(" token {token}"))
        }
    }
}

/// Bytes as a reader can take them: short, and told apart by a digest where they are cut.
pub(crate) fn text(bytes: &[u8]) -> String {
    const SHOWN: usize = 24;
    let shown = format!("\"{}\"", bytes[..bytes.len().min(SHOWN)].escape_ascii());
    if bytes.len() <= SHOWN {
        return shown;
    }
    let digest = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{shown}.. ({} bytes, digest {:08x})", bytes.len(), digest >> 32)
}
