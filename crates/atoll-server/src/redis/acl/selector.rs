//! A selector: commands that a user may run, with the keys and channels that it may run them on.
//!
//! | rule | effect |
//! |---|---|
//! | `~pattern` | permits keys that match |
//! | `%R~pattern`, `%W~pattern` | permits to read keys that match, or to write them |
//! | `allkeys`, `~*`; `resetkeys` | permits all keys; none |
//! | `&pattern` | permits channels that match, and to subscribe to exactly this pattern |
//! | `allchannels`, `&*`; `resetchannels` | permits all channels; none |
//! | `+...`, `-...` | see `commands` |

use super::catalog;
use super::commands::Commands;
use super::{Denial, PATTERNS_MAX, RuleError, has_blanks};
use crate::redis::command::{Flag, Id, SPECS, keys, subcommand};
use crate::redis::glob;
use crate::redis::resp::Args;

/// A pattern of keys, and what may be done with those that match.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Box<[u8]>,
    reads: bool,
    writes: bool,
}

/// A command that is to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    id: Id,
    args: Args<'a>,
    /// Its place in the catalog.
    place: usize,
}

impl<'a> Call<'a> {
    /// A command with arguments that the table has checked.
    pub(super) fn new(id: Id, args: Args<'a>) -> Self {
        let place = catalog::find(subcommand::full_name(id, args));
        Self { id, args, place: place.expect("the catalog has every command of the table") }
    }

    /// Its channels: where they are, and whether they are patterns.
    fn channels(&self) -> (std::ops::Range<usize>, bool) {
        match self.id {
            Id::Publish | Id::Spublish => (1..2, false),
            Id::Subscribe | Id::Ssubscribe => (1..self.args.len(), false),
            Id::Psubscribe => (1..self.args.len(), true),
            _ => (0..0, false),
        }
    }
}

/// What commands may be run on what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    commands: Commands,
    has_all_keys: bool,
    keys: Vec<KeyPattern>,
    has_all_channels: bool,
    channels: Vec<Box<[u8]>>,
}

/// The permissions and the pattern of a rule on keys.
fn key_pattern(rule: &[u8]) -> Result<KeyPattern, RuleError> {
    let (mut reads, mut writes) = (false, false);
    let pattern = if let Some(pattern) = rule.strip_prefix(b"~") {
        (reads, writes) = (true, true);
        pattern
    } else {
        let end = rule.iter().position(|byte| *byte == b'~').unwrap_or(rule.len());
        for letter in &rule[1..end] {
            let permission = match letter.to_ascii_uppercase() {
                b'R' => &mut reads,
                b'W' => &mut writes,
                _ => return Err(RuleError::Syntax),
            };
            if std::mem::replace(permission, true) {
                return Err(RuleError::Syntax);
            }
        }
        &rule[rule.len().min(end + 1)..]
    };
    if !reads && !writes || has_blanks(pattern) {
        return Err(RuleError::Syntax);
    }
    Ok(KeyPattern { pattern: pattern.into(), reads, writes })
}

impl Selector {
    /// Changes it by a rule.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            _ if is("allkeys") || is("~*") => (self.has_all_keys, self.keys) = (true, Vec::new()),
            _ if is("resetkeys") => (self.has_all_keys, self.keys) = (false, Vec::new()),
            _ if is("allchannels") || is("&*") => (self.has_all_channels, self.channels) = (true, Vec::new()),
            _ if is("resetchannels") => (self.has_all_channels, self.channels) = (false, Vec::new()),
            _ if is("allcommands") || is("+@all") => self.commands.set_all(true),
            _ if is("nocommands") || is("-@all") => self.commands.set_all(false),
            [b'~' | b'%', ..] if self.has_all_keys => return Err(RuleError::KeysAfterAll),
            [b'~' | b'%', ..] => {
                let new = key_pattern(rule)?;
                let count = self.keys.len();
                match self.keys.iter_mut().find(|own| own.pattern == new.pattern) {
                    Some(own) => (own.reads, own.writes) = (own.reads | new.reads, own.writes | new.writes),
                    None if count >= PATTERNS_MAX => return Err(RuleError::TooManyPatterns),
                    None => self.keys.push(new),
                }
            }
            [b'&', ..] if self.has_all_channels => return Err(RuleError::ChannelsAfterAll),
            [b'&', pattern @ ..] if has_blanks(pattern) => return Err(RuleError::Syntax),
            [b'&', pattern @ ..] if self.channels.iter().any(|own| **own == *pattern) => {}
            [b'&', ..] if self.channels.len() >= PATTERNS_MAX => return Err(RuleError::TooManyPatterns),
            [b'&', pattern @ ..] => self.channels.push(pattern.into()),
            [b'+', rest @ ..] => self.commands.apply(true, rest)?,
            [b'-', rest @ ..] => self.commands.apply(false, rest)?,
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    /// Whether it permits everything.
    pub(super) fn is_free(&self) -> bool {
        self.has_all_keys && self.has_all_channels && self.commands.are_all()
    }

    /// Whether it permits a channel. To subscribe to a pattern is permitted by the same pattern
    /// alone.
    pub(super) fn permits_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let matches = |own: &[u8]| if is_pattern { own == channel } else { glob::matches(own, channel) };
        self.has_all_channels || self.channels.iter().any(|own| matches(own))
    }

    /// What it takes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        let patterns = self.keys.iter().map(|own| &own.pattern).chain(&self.channels);
        size_of::<Self>() + self.commands.bytes() + patterns.map(|pattern| pattern.len() + 32).sum::<usize>()
    }

    /// Whether it permits a command; if not, why.
    pub(super) fn check(&self, call: &Call<'_>) -> Result<(), Denial> {
        let Call { id, args, place } = *call;
        let first_arg = (args.len() > 1).then(|| args.get(1));
        let needs_none = SPECS[id as usize].flags.contains(&Flag::NoAuth);
        if !needs_none && !self.commands.permit(place, first_arg) {
            return Err(Denial::Command);
        }
        if !self.has_all_keys {
            for (place, access) in keys::accessed(id, args) {
                let permits = |own: &KeyPattern| {
                    (own.reads || !access.reads)
                        && (own.writes || !access.writes)
                        && glob::matches(&own.pattern, args.get(place))
                };
                if !self.keys.iter().any(permits) {
                    return Err(Denial::Key(place));
                }
            }
        }
        let (mut places, are_patterns) = call.channels();
        let refused = places.find(|place| !self.permits_channel(args.get(*place), are_patterns));
        refused.map_or(Ok(()), |place| Err(Denial::Channel(place)))
    }

    /// Appends the patterns of keys.
    pub(super) fn describe_keys(&self, text: &mut Vec<u8>) {
        if self.has_all_keys {
            text.extend_from_slice(b"~*");
        }
        for (index, own) in self.keys.iter().enumerate() {
            if index > 0 {
                text.push(b' ');
            }
            text.extend_from_slice(match (own.reads, own.writes) {
                (true, false) => b"%R~",
                (false, true) => b"%W~",
                _ => b"~",
            });
            text.extend_from_slice(&own.pattern);
        }
    }

    /// Appends the patterns of channels.
    pub(super) fn describe_channels(&self, text: &mut Vec<u8>) {
        if self.has_all_channels {
            text.extend_from_slice(b"&*");
        }
        for (index, pattern) in self.channels.iter().enumerate() {
            text.extend_from_slice(if index > 0 { b" &" } else { b"&" });
            text.extend_from_slice(pattern);
        }
    }

    /// Appends the rules on commands.
    pub(super) fn describe_commands(&self, text: &mut Vec<u8>) {
        self.commands.describe(text);
    }

    /// Appends rules that make the same of a new one.
    pub(super) fn describe(&self, text: &mut Vec<u8>) {
        let before = text.len();
        self.describe_keys(text);
        if text.len() > before {
            text.push(b' ');
        }
        if !self.has_all_channels {
            text.extend_from_slice(b"resetchannels ");
        }
        if self.has_all_channels || !self.channels.is_empty() {
            self.describe_channels(text);
            text.push(b' ');
        }
        self.describe_commands(text);
    }
}
