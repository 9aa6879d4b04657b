//! Commands that took long: what SLOWLOG and LATENCY show.
//!
//! | kept | of which commands | how many |
//! |---|---|---|
//! | slow log | at least `slowlog-log-slower-than` microseconds | `slowlog-max-len`, the newest |
//! | latency events | at least `latency-monitor-threshold` milliseconds | 160 seconds with such a command, the newest |
//!
//! To read the clock for every command would slow a pipeline down. A command is *brief* if it has a
//! key and few, short arguments. In a pipeline a brief one is timed by samples alone, unless the
//! slow log asks for less than [`FINE_US`].

use super::command::{Flag, Id, SPECS};
use super::resp::Args;
use super::session::Session;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Arguments of a brief command at most, and their bytes.
const BRIEF_ARGS_MAX: usize = 16;
const BRIEF_BYTES_MAX: u32 = 64 << 10;
/// Below so many microseconds the slow log wants every command timed.
const FINE_US: i64 = 1000;
/// Arguments of an entry at most, and the bytes of one.
const ARGS_MAX: usize = 32;
pub(crate) const ARG_BYTES_MAX: usize = 128;
/// Samples of an event at most.
const SAMPLES_MAX: usize = 160;

/// A command of the slow log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) at_s: u64,
    pub(crate) took_us: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) name: Vec<u8>,
}

/// The seconds in which commands took long.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    pub(crate) max_ms: u64,
    /// Each second with the longest time in it.
    pub(crate) samples: VecDeque<(u64, u64)>,
}

#[derive(Default)]
struct Kept {
    entries: VecDeque<Entry>,
    next_id: u64,
    events: BTreeMap<&'static str, Event>,
}

/// What took long on a server.
pub(crate) struct Slow {
    /// Microseconds; negative for none.
    pub(crate) threshold_us: AtomicI64,
    pub(crate) entries_max: AtomicU64,
    /// Milliseconds; 0 for none.
    pub(crate) event_ms: AtomicU64,
    kept: Mutex<Kept>,
}

impl Default for Slow {
    fn default() -> Self {
        Self {
            threshold_us: AtomicI64::new(10_000),
            entries_max: AtomicU64::new(128),
            event_ms: AtomicU64::new(0),
            kept: Mutex::default(),
        }
    }
}

/// Whether a command is timed by samples alone, if it comes behind another one.
#[inline]
pub(crate) fn is_brief(id: Id, args: Args<'_>) -> bool {
    let is_short = args.spans().last().is_some_and(|last| last.end <= BRIEF_BYTES_MAX);
    SPECS[id as usize].keys.0 > 0 && args.len() <= BRIEF_ARGS_MAX && is_short
}

/// Parameters of Redis whose values are secret, whether this server has them or not.
const CONFIGURED: [&[u8]; 4] = [b"requirepass", b"masterauth", b"masteruser", b"tls-key-file-pass"];

/// What a log may show of a command's arguments: no password, and nothing of what users may do. As
/// in Redis 7.2 that is true of DELUSER and GETUSER, too.
pub(crate) fn public<'a>(args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let is = |index: usize, word: &[u8]| args.len() > index && args.get(index).eq_ignore_ascii_case(word);
    let is_about_users = is(0, b"acl") && [&b"setuser"[..], b"deluser", b"getuser"].iter().any(|word| is(1, word));
    // The first argument of those that are all hidden, and how many follow a word.
    let (all_from, words, behind): (usize, &[&[u8]], usize) = match () {
        () if is(0, b"auth") => (1, &[], 0),
        () if is_about_users => (2, &[], 0),
        () if is(0, b"hello") => (usize::MAX, &[b"auth"], 2),
        () if is(0, b"config") && is(1, b"set") => (usize::MAX, &CONFIGURED[..], 1),
        () => (usize::MAX, &[], 0),
    };
    let mut hidden = 0;
    let shown = move |(index, arg): (usize, &'a [u8])| {
        if index >= all_from || hidden > 0 {
            hidden = usize::saturating_sub(hidden, 1);
            return b"(redacted)".as_slice();
        }
        if index > 0 && words.iter().any(|word| arg.eq_ignore_ascii_case(word)) {
            hidden = behind;
        }
        arg
    };
    args.from(0).enumerate().map(shown)
}

/// What stands behind the beginning of an argument of which so many bytes are not shown.
pub(super) fn more(bytes: usize) -> String {
    format!("... ({bytes} more bytes)")
}

/// The arguments of an entry: the first of many, and the beginnings of long ones. Nothing more is
/// copied: an argument may have hundreds of megabytes. `elided`: the place of an argument of which
/// only the beginning is there, and how many bytes are not.
fn kept<'a>(args: impl Iterator<Item = &'a [u8]>, count: usize, elided: Option<(usize, usize)>) -> Vec<Vec<u8>> {
    let shown = if count > ARGS_MAX { ARGS_MAX - 1 } else { count };
    let brief = |(index, arg): (usize, &[u8])| {
        let (beginning, rest) = arg.split_at(arg.len().min(ARG_BYTES_MAX));
        let elided = elided.filter(|(place, _)| *place == index).map_or(0, |(_, bytes)| bytes);
        match rest.len() + elided {
            0 => beginning.to_vec(),
            bytes => [beginning, more(bytes).as_bytes()].concat(),
        }
    };
    let mut kept: Vec<_> = args.take(shown).enumerate().map(brief).collect();
    if count > shown {
        kept.push(format!("... ({} more arguments)", count - shown).into_bytes());
    }
    kept
}

impl Slow {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether even brief commands are all timed.
    #[inline]
    pub(crate) fn is_fine(&self) -> bool {
        (0..FINE_US).contains(&self.threshold_us.load(Relaxed))
    }

    /// A command took so long.
    #[inline]
    pub(crate) fn took(&self, id: Id, args: Args<'_>, session: &Session, took: Duration) {
        let (threshold_us, event_ms) = (self.threshold_us.load(Relaxed), self.event_ms.load(Relaxed));
        let is_slow = threshold_us >= 0 && took.as_micros() >= threshold_us as u128;
        let is_event = event_ms > 0 && took.as_millis() >= u128::from(event_ms);
        if (is_slow || is_event) && id != Id::Exec {
            self.keep(is_slow, is_event, id, args, session, took);
        }
    }

    #[cold]
    fn keep(&self, is_slow: bool, is_event: bool, id: Id, args: Args<'_>, session: &Session, took: Duration) {
        let at_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut all = self.kept();
        if is_event {
            let is_fast = SPECS[id as usize].flags.contains(&Flag::Fast);
            let event = all.events.entry(if is_fast { "fast-command" } else { "command" }).or_default();
            let ms = took.as_millis() as u64;
            event.max_ms = event.max_ms.max(ms);
            match event.samples.back_mut() {
                Some((second, most)) if *second == at_s => *most = (*most).max(ms),
                _ => event.samples.push_back((at_s, ms)),
            }
            if event.samples.len() > SAMPLES_MAX {
                event.samples.pop_front();
            }
        }
        if is_slow {
            let (id, peer) = (all.next_id, session.peer.handle.peer.clone());
            let (args, name) = (kept(public(args), args.len(), session.elided), session.peer.names().own.clone());
            all.next_id += 1;
            all.entries.push_front(Entry { id, at_s, took_us: took.as_micros() as u64, args, peer, name });
            let most = usize::try_from(self.entries_max.load(Relaxed)).unwrap_or(usize::MAX);
            all.entries.truncate(most);
        }
    }

    /// The newest entries.
    pub(crate) fn entries(&self, most: usize) -> Vec<Entry> {
        self.kept().entries.iter().take(most).cloned().collect()
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.kept().entries.len()
    }

    /// Forgets the entries.
    pub(crate) fn clear(&self) {
        self.kept().entries.clear();
    }

    /// The events.
    pub(crate) fn events(&self) -> BTreeMap<&'static str, Event> {
        self.kept().events.clone()
    }

    /// Forgets the events that are asked for; returns how many.
    pub(crate) fn forget_events(&self, is_asked: impl Fn(&str) -> bool) -> usize {
        let mut all = self.kept();
        let before = all.events.len();
        all.events.retain(|name, _| !is_asked(name));
        before - all.events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_memory_of_what_it_shows() {
        let (long, short, exact) = (vec![b'v'; 64 << 20], b"k".as_slice(), [b'e'; ARG_BYTES_MAX]);
        let entry = kept([short, &exact, &long].into_iter(), 3, None);
        assert_eq!(entry[..2], [short.to_vec(), exact.to_vec()]);
        assert_eq!(entry[2], [&long[..ARG_BYTES_MAX], b"... (67108736 more bytes)"].concat());
        assert!(entry.iter().all(|arg| arg.capacity() < 1024));
        let elided = kept([short, &exact].into_iter(), 2, Some((1, 5)));
        assert_eq!(elided[1], [&exact[..], b"... (5 more bytes)"].concat());
        let many = kept(std::iter::repeat_n(short, 40), 40, None);
        assert_eq!((many.len(), many[31].as_slice()), (ARGS_MAX, b"... (9 more arguments)".as_slice()));
    }
}
