//! Databases: sixteen sets of keys in one cache.
//!
//! | a key of database | is stored in the cache as |
//! |---|---|
//! | 0, if its first byte is not `ff` | itself, as every process of the pool knows it |
//! | 0, if its first byte is `ff` | `ff 00` and the key |
//! | n | `ff`, n and the key |
//!
//! So a key has two bytes less in a database other than 0. A key that a program stores as `ff`
//! followed by no number of a database is in no database.
//!
//! SWAPDB changes which numbers this server gives to the databases. Other servers of the pool keep
//! theirs.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// How many there are.
pub const DATABASES: u8 = 16;

/// What a stored key begins with that is not a key of database 0 as it is.
const PREFIX: u8 = 0xff;

/// Whether a key is stored as it is.
#[inline]
fn is_plain(database: u8, key: &[u8]) -> bool {
    database == 0 && key.first() != Some(&PREFIX)
}

/// A database, by the number that stored keys have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Database(u8);

impl Database {
    /// How a key is stored.
    #[inline]
    pub fn stored(self, key: &[u8]) -> Cow<'_, [u8]> {
        if is_plain(self.0, key) { Cow::Borrowed(key) } else { Cow::Owned(self.prefixed(key)) }
    }

    #[cold]
    fn prefixed(self, key: &[u8]) -> Vec<u8> {
        [&[PREFIX, self.0], key].concat()
    }

    /// Does something with keys as they are stored.
    #[inline]
    pub(crate) async fn with_stored<T>(self, keys: &[&[u8]], each: impl AsyncFnOnce(&[&[u8]]) -> T) -> T {
        if keys.iter().all(|key| is_plain(self.0, key)) {
            return each(keys).await;
        }
        let stored: Vec<_> = keys.iter().map(|key| self.stored(key)).collect();
        each(&stored.iter().map(|key| &**key).collect::<Vec<_>>()).await
    }

    /// The key that is stored like this, if it is in this database.
    #[inline]
    pub fn key(self, stored: &[u8]) -> Option<&[u8]> {
        match stored {
            [PREFIX, database, key @ ..] => (*database == self.0).then_some(key),
            [PREFIX] => None,
            key => (self.0 == 0).then_some(key),
        }
    }

    /// Which database a stored key is in.
    pub fn of(stored: &[u8]) -> Option<Self> {
        match stored {
            [PREFIX, database, ..] => (*database < DATABASES).then_some(Self(*database)),
            [PREFIX] => None,
            _ => Some(Self(0)),
        }
    }
}

/// The databases behind the numbers that peers use.
pub(crate) struct Databases([AtomicU8; DATABASES as usize]);

impl Default for Databases {
    fn default() -> Self {
        Self(std::array::from_fn(|number| AtomicU8::new(number as u8)))
    }
}

impl Databases {
    /// The database that a peer calls by this number, which is less than [`DATABASES`].
    #[inline]
    pub(crate) fn get(&self, number: u8) -> Database {
        Database(self.0[number as usize].load(Relaxed))
    }

    /// What peers call a database.
    pub(crate) fn number_of(&self, database: Database) -> u8 {
        let number = (0..DATABASES).find(|number| self.get(*number) == database);
        number.expect("every database has a number")
    }

    /// Exchanges the numbers of two databases. The caller runs alone.
    pub(crate) fn swap(&self, one: u8, other: u8) {
        let (first, second) = (self.get(one), self.get(other));
        self.0[one as usize].store(second.0, Relaxed);
        self.0[other as usize].store(first.0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_every_database_is_stored_in_its_own_way() {
        let keys: [&[u8]; 8] =
            [b"", b"a", b"\xff", b"\xff\x00", b"\xff\x01", b"\xff\x01a", b"\xff\xff", b"\xff\x00\xff\x01a"];
        let mut all = std::collections::HashSet::new();
        for database in (0..DATABASES).map(Database) {
            for key in keys {
                let stored = database.stored(key).into_owned();
                assert_eq!(database.key(&stored), Some(key));
                assert_eq!(Database::of(&stored), Some(database));
                let others = (0..DATABASES).map(Database).filter(|other| *other != database);
                assert!(others.into_iter().all(|other| other.key(&stored).is_none()));
                assert!(all.insert(stored), "two keys are stored alike");
            }
        }
    }

    #[test]
    fn what_is_stored_behind_no_number_of_a_database_is_in_none() {
        for stored in [b"\xff".as_slice(), b"\xff\x10", b"\xff\xffa"] {
            assert_eq!(Database::of(stored), None);
            assert!((0..DATABASES).map(Database).all(|database| database.key(stored).is_none()));
        }
    }
}
