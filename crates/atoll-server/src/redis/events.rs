//! Events of keys, as messages of channels: keyspace notifications.
//!
//! | channel | message | if the parameter `notify-keyspace-events` has |
//! |---|---|---|
//! | `__keyspace@DATABASE__:KEY` | the event | `K` |
//! | `__keyevent@DATABASE__:EVENT` | the key | `E` |
//!
//! | letter | events |
//! |---|---|
//! | `g` | `del` `expire` `persist` `rename_from` `rename_to` `copy_to` `move_from` `move_to` |
//! | `$` | `set` `setrange` `append` `incrby` `incrbyfloat` `setbit` |
//! | `h` | `hset` `hdel` `hincrby` `hincrbyfloat` |
//! | `x` `e` | `expired`, `evicted` |
//! | `n` | `new` |
//! | `m` | `keymiss` |
//! | `l` `s` `z` `t` `d` | none: there are no such keys |
//!
//! Commands tell what they did through this server. Changes by other servers and processes of the
//! pool are theirs to tell. Of the keys that expire or are evicted, each server tells those that
//! its own clients have removed. So all servers of a pool together tell each of them at most once;
//! what a program without a server removes is not told.
//!
//! Differences from Redis: an expired key that a command overwrites before a client has found it is
//! not told. A SET whose expiry is past tells `set` and `expire` alone. A command other than SET,
//! MSET and their kin looks whether its key is `new` before it changes it, so two that run at once
//! may both tell so.
//!
//! While the parameter is empty, a change costs one relaxed load here. A worker begins to note what
//! its client removes at most a tenth of a second after the parameter was set.

use super::command::{CommandError, Context};
use super::database::Database;
use super::instance::Instance;
use crate::serve::counters::Shared;
use atoll_cache::{Cache, CacheError, Cause, Engine, SetOutcome};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A class of events: a letter's bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class(u32);

impl Class {
    pub(crate) const GENERIC: Self = Self::of(b'g');
    pub(crate) const STRING: Self = Self::of(b'$');
    pub(crate) const HASH: Self = Self::of(b'h');
    pub(crate) const EXPIRED: Self = Self::of(b'x');
    pub(crate) const EVICTED: Self = Self::of(b'e');
    pub(crate) const NEW: Self = Self::of(b'n');
    pub(crate) const MISS: Self = Self::of(b'm');
    /// Keys that no caller has removed.
    const LOST: Self = Self(Self::EXPIRED.0 | Self::EVICTED.0);

    /// Whether keys change by its events.
    #[inline]
    pub(crate) fn is_change(self) -> bool {
        self.0 & (Self::GENERIC.0 | Self::STRING.0 | Self::HASH.0) != 0
    }

    const fn of(letter: u8) -> Self {
        let mut index = 0;
        while LETTERS[index] != letter {
            index += 1;
        }
        Self(1 << index)
    }
}

/// The letters, in the order in which Redis prints them. Those up to `d` are printed as `A` if all
/// are set, and then `n` is not printed.
const LETTERS: [u8; 14] = *b"g$lshzxetdnKEm";
const ALL: u32 = (1 << 10) - 1;
const BY_KEY: Class = Class::of(b'K');
const BY_EVENT: Class = Class::of(b'E');

/// The classes that letters stand for; `None` if one stands for nothing.
pub(crate) fn parse(text: &str) -> Option<u32> {
    text.bytes().try_fold(0, |classes, letter| match letter {
        b'A' => Some(classes | ALL),
        _ => LETTERS.contains(&letter).then(|| classes | Class::of(letter).0),
    })
}

/// The letters of classes.
pub(crate) fn printed(classes: u32) -> String {
    let has_all = classes & ALL == ALL;
    let letters = LETTERS.iter().filter(|letter| {
        let bit = Class::of(**letter).0;
        classes & bit != 0 && !(has_all && (bit & ALL != 0 || bit == Class::NEW.0))
    });
    has_all.then_some('A').into_iter().chain(letters.map(|letter| char::from(*letter))).collect()
}

/// The classes of events that a server tells.
#[derive(Debug, Default)]
pub(crate) struct Events(AtomicU32);

impl Events {
    /// The classes, for [`printed`].
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Tells those of these classes from now on, which [`parse`] has made.
    pub(crate) fn set(&self, classes: u32) {
        self.0.store(classes, Relaxed);
    }

    /// Whether events of this class are told.
    #[inline]
    pub(crate) fn has(&self, class: Class) -> bool {
        self.get() & class.0 != 0
    }
}

/// An event that is told once a step has been published.
#[derive(Debug)]
pub(crate) struct Untold {
    class: Class,
    event: String,
    key: Vec<u8>,
    /// The number of its database.
    database: u8,
}

impl Instance {
    /// Tells an event of a key in the database of this number.
    #[inline]
    pub(crate) fn notify(&self, shared: &Shared, class: Class, event: &str, key: &[u8], database: u8) {
        if self.events.has(class) {
            self.tell(shared, event, key, database);
        }
    }

    #[cold]
    fn tell(&self, shared: &Shared, event: &str, key: &[u8], database: u8) {
        let limit = shared.limits.output(true);
        if self.events.has(BY_KEY) {
            let channel = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
            self.channels.publish(&channel, event.as_bytes(), limit);
        }
        if self.events.has(BY_EVENT) {
            self.channels.publish(format!("__keyevent@{database}__:{event}").as_bytes(), key, limit);
        }
    }

    /// Lets a worker's client note the keys that it loses, if they are told, and tells those that
    /// it has noted.
    #[inline]
    pub(crate) fn tell_lost<G: Engine>(&self, cache: &Cache<G>, shared: &Shared) {
        if self.events.has(Class::LOST) {
            self.tell_noted(cache, shared);
        }
    }

    #[cold]
    fn tell_noted<G: Engine>(&self, cache: &Cache<G>, shared: &Shared) {
        let Some(removals) = cache.engine().removals() else { return };
        if !removals.is_on() {
            removals.begin_lost();
        }
        for removal in removals.take() {
            let (class, event) = match removal.cause {
                Cause::Expired => (Class::EXPIRED, "expired"),
                _ => (Class::EVICTED, "evicted"),
            };
            let Some(database) = Database::of(&removal.key) else { continue };
            let key = database.key(&removal.key).expect("a key of that database");
            if self.events.has(class) {
                self.tell(shared, event, key, self.databases.number_of(database));
            }
        }
    }

    /// As [`tell_lost`](Self::tell_lost), also when they are told no longer.
    pub(crate) fn tend<G: Engine>(&self, cache: &Cache<G>, shared: &Shared) {
        self.tell_lost(cache, shared);
        if let Some(removals) = cache.engine().removals().filter(|_| !self.events.has(Class::LOST)) {
            removals.end();
        }
    }
}

impl<G: Engine> Context<'_, G> {
    /// Tells an event of a key in the connection's database.
    #[inline]
    pub(crate) fn notify(&self, class: Class, event: &str, key: &[u8]) {
        self.notify_in(self.session.database, class, event, key);
    }

    /// Tells an event of a key in the database of this number.
    #[inline]
    pub(crate) fn notify_in(&self, database: u8, class: Class, event: &str, key: &[u8]) {
        if self.cache.is_held() {
            return self.put_off(database, class, event, key);
        }
        self.instance.notify(self.shared, class, event, key, database);
        self.tell_trackers(database, class, key);
    }

    /// Keeps an event of a step that may have to begin again.
    #[cold]
    fn put_off(&self, database: u8, class: Class, event: &str, key: &[u8]) {
        if self.instance.events.has(class) || self.instance.tracking.is_any() {
            let event = event.to_owned();
            self.session.untold.borrow_mut().push(Untold { class, event, key: key.to_vec(), database });
        }
    }

    /// Tells the events of a step that has been published.
    pub(crate) fn tell_held(&mut self) {
        for Untold { class, event, key, database } in self.session.untold.take() {
            self.instance.notify(self.shared, class, &event, &key, database);
            self.tell_trackers(database, class, &key);
        }
    }

    /// Counts that a key was read, and tells that it is missed if it is not there.
    #[inline]
    pub(crate) fn looked(&self, key: &[u8], is_there: bool) {
        self.tally.borrow_mut().looked(is_there);
        if !is_there {
            self.notify(Class::MISS, "keymiss", key);
        }
    }

    /// The same of a read that is a part of a change, which is refused for another kind.
    #[inline]
    pub(crate) fn looked_for_string(&self, key: &[u8], found: Result<bool, CacheError>) -> Result<bool, CacheError> {
        match found {
            Ok(is_there) => self.looked(key, is_there),
            Err(CacheError::AnotherKind { .. }) => self.looked(key, true),
            Err(_) => {}
        }
        found
    }

    /// Tells that a value was put, by an event of class `$`, and before it whether the key is new.
    #[inline]
    pub(crate) fn notify_put(&self, is_new: bool, event: &str, key: &[u8]) {
        if is_new {
            self.notify(Class::NEW, "new", key);
        }
        self.notify(Class::STRING, event, key);
    }

    /// Tells that a value was set, if it was.
    #[inline]
    pub(crate) fn notify_set(&self, outcome: &SetOutcome, key: &[u8]) {
        if outcome.stored {
            self.notify_put(outcome.old.is_none(), "set", key);
        }
    }

    /// Whether it will have to be told that a key is new, as it seems before it is changed.
    #[inline]
    pub(crate) async fn seems_new(&self, stored: &[u8]) -> Result<bool, CommandError> {
        Ok(self.instance.events.has(Class::NEW) && self.cache.peek(stored).await?.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_printed_as_redis_prints_them() {
        for (text, expected) in [
            ("", ""),
            ("KEA", "AKE"),
            ("AKEnm", "AKEm"),
            ("mg$K", "g$Km"),
            ("Elshzxetdn", "lshzxetdnE"),
            ("g$lshzxetdmnEK", "AKEm"),
            ("KKEx", "xKE"),
            ("nE", "nE"),
        ] {
            assert_eq!(printed(parse(text).unwrap()), expected, "{text}");
        }
        assert_eq!((parse("q"), parse("K E"), parse("a")), (None, None, None));
    }
}
