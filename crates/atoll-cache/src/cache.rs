//! The operations of a cache, each built from one lookup or one atomic change of the engine.

mod changes;
mod held;
mod pieces;

pub use held::Hold;
pub use pieces::Got;

use crate::engine::Room;
use crate::{
    Accesses, Attributes, CacheError, Cause, Change, Engine, Flushed, KEY_BYTES_MAX, Lookup, Meta, Removal, Staged,
    Stats, Value,
};
use atoll_pool::clock::SKEW_MS;
use changes::{Edit, Expire, Remove, Removes, Rewrite, Rewritten, Set, give_back};
use held::Held;
use std::borrow::Cow;
use std::ops::Range;

/// A cache as one client uses it.
pub struct Cache<G: Engine> {
    engine: G,
    held: Held,
}

/// The condition under which a [`Cache::set`] stores its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Whether the key is there or not.
    #[default]
    Always,
    /// Only if the key is not there.
    IfAbsent,
    /// Only if the key is there.
    IfPresent,
    /// Only if the key is there and was last written under this token.
    IfToken(u64),
}

/// When an object will expire. A time in the past removes the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Never.
    #[default]
    Never,
    /// Keeps the expiry of the present object; never if there is none.
    Keep,
    /// After so many milliseconds on the pool's clock, and never before: a few more pass, because
    /// clients' clocks are [`SKEW_MS`] apart at most. 0 is in the past.
    InMs(u64),
    /// At so many milliseconds since the Unix epoch on the pool's clock.
    AtMs(u64),
}

impl Expiry {
    /// The moment on the pool's clock, given what is known of the present object.
    pub fn at_ms(self, now_ms: u64, old: Option<Meta>) -> Option<u64> {
        match self {
            Self::Never => None,
            Self::Keep => old.and_then(|old| old.expiry_ms),
            Self::InMs(0) => Some(now_ms),
            Self::InMs(ms) => Some(now_ms.saturating_add(ms).saturating_add(SKEW_MS)),
            Self::AtMs(ms) => Some(ms),
        }
    }
}

/// How long an object is left at least that expires at this moment: for one that was to expire
/// [after some time](Expiry::InMs), never more than what remains of that.
pub fn left_ms(expiry_ms: u64, now_ms: u64) -> u64 {
    expiry_ms.saturating_sub(now_ms).saturating_sub(SKEW_MS)
}

/// The options of a [`Cache::set`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetOptions {
    /// When it takes place.
    pub condition: Condition,
    /// When the new object expires.
    pub expiry: Expiry,
    /// What is said of the new value.
    pub attributes: Attributes,
}

/// What an object is like that a change of a part of a value creates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// When it expires.
    pub expiry: Expiry,
    /// What is said of its value.
    pub attributes: Attributes,
}

/// The outcome of a [`Cache::set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetOutcome {
    /// Whether the value was stored. If not, the condition did not hold.
    pub stored: bool,
    /// The object that was there before.
    pub old: Option<Meta>,
    /// The token of the stored value. If nothing was stored: the token of the object that is there,
    /// or 0 without one.
    pub token: u64,
}

/// When a [`Cache::expire`] takes place, given that the key is there. An object without an expiry
/// counts as expiring last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireCondition {
    /// Only if it has no expiry.
    pub if_none: bool,
    /// Only if it has an expiry.
    pub if_some: bool,
    /// Only if the new expiry is later.
    pub if_later: bool,
    /// Only if the new expiry is earlier.
    pub if_earlier: bool,
}

/// The outcome of a [`Cache::expire`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpireOutcome {
    /// The key is not there.
    #[default]
    Absent,
    /// The condition did not hold.
    Refused,
    /// The expiry is set.
    Set,
    /// The time was in the past: the key is removed.
    Removed,
}

/// What an increment gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number<T> {
    /// The new number.
    Value(T),
    /// The value is not a number.
    NotANumber,
    /// The result is out of range; nothing was changed.
    Overflow,
}

fn checked(key: &[u8]) -> Result<&[u8], CacheError> {
    if key.len() > KEY_BYTES_MAX { Err(CacheError::KeyTooLong { bytes: key.len() }) } else { Ok(key) }
}

impl<G: Engine> Cache<G> {
    /// The operations over `engine`.
    pub fn new(engine: G) -> Self {
        Self { engine, held: Held::default() }
    }

    /// The engine.
    pub fn engine(&self) -> &G {
        &self.engine
    }

    /// Unwraps the engine.
    pub fn into_engine(self) -> G {
        self.engine
    }

    /// Looks `key` up; on a hit, `true`, and its value is in `into`.
    #[inline]
    pub async fn get(&self, key: &[u8], into: &mut Value) -> Result<bool, CacheError> {
        if self.is_held() {
            return Box::pin(self.get_held(key, into)).await;
        }
        Ok(self.engine.get(checked(key)?, into).await? == Lookup::Hit)
    }

    /// Looks `key` up and copies its value to the start of `into`; returns its metadata, or `None`
    /// if the key is not there. A value that is longer than `into` is not copied: the metadata has
    /// its length. Where memory is near, the value of a large object is copied straight from the
    /// pool.
    pub async fn get_to_slice(&self, key: &[u8], into: &mut [u8]) -> Result<Option<Meta>, CacheError> {
        if self.is_held() {
            let mut value = Value::new();
            let is_there = Box::pin(self.get_held(key, &mut value)).await?;
            if let Some(into) = into.get_mut(..value.bytes().len()).filter(|_| is_there) {
                into.copy_from_slice(value.bytes());
            }
            return Ok(is_there.then(|| value.meta()));
        }
        let (lookup, meta) = self.engine.get_to(checked(key)?, into).await?;
        Ok((lookup == Lookup::Hit).then_some(meta))
    }

    /// Looks `key` up; returns its metadata, or `None` if the key is not there. The bytes of its
    /// value that `part` chooses are in `into`. Of a large object only these are read, if they are
    /// at most half of it.
    pub async fn get_part<P>(&self, key: &[u8], part: P, into: &mut Value) -> Result<Option<Meta>, CacheError>
    where
        P: Fn(Meta) -> Range<usize> + 'static,
    {
        if self.is_held() {
            let is_there = Box::pin(self.get_held(key, into)).await?;
            let meta = is_there.then(|| into.meta());
            meta.into_iter().for_each(|meta| into.narrow(part(meta)));
            return Ok(meta);
        }
        let (lookup, meta) = self.engine.get_part(checked(key)?, part, into).await?;
        Ok((lookup == Lookup::Hit).then_some(meta))
    }

    /// Looks many keys up at once; `found(i, value)` is called for every `keys[i]` in order, with
    /// `None` for a miss. It may take the value's memory. The lookups are not one atomic step.
    pub async fn get_many<F>(&self, keys: &[&[u8]], found: F) -> Result<(), CacheError>
    where
        F: FnMut(usize, Option<&mut Value>),
    {
        self.get_many_within(keys, usize::MAX, found).await
    }

    /// As [`get_many`](Self::get_many), but the lookups end early: behind the value with which all
    /// have at least `bytes_max` bytes, or in front of one that has as many alone and is to be
    /// [opened](Self::get_or_open). `found` is called for those that took place.
    pub async fn get_many_within<F>(&self, keys: &[&[u8]], bytes_max: usize, mut found: F) -> Result<(), CacheError>
    where
        F: FnMut(usize, Option<&mut Value>),
    {
        for key in keys {
            checked(key)?;
        }
        if self.is_held() {
            let (mut value, mut room) = (Value::new(), Room::new(bytes_max));
            for (index, key) in keys.iter().enumerate() {
                let is_there = Box::pin(self.get_held(key, &mut value)).await?;
                let is_last = room.is_used_up_by(if is_there { Lookup::Hit } else { Lookup::Absent }, &value);
                found(index, is_there.then_some(&mut value));
                if is_last {
                    break;
                }
            }
            return Ok(());
        }
        let each =
            |index: usize, lookup: Lookup, value: &mut Value| found(index, (lookup == Lookup::Hit).then_some(value));
        self.engine.get_many(keys, bytes_max, each).await
    }

    /// Announces operations on these keys, in this order. Where memory is near, the engine
    /// prefetches the words that they will read.
    pub async fn expect(&self, keys: &[&[u8]]) {
        if !self.is_held() {
            self.engine.expect(keys).await;
        }
    }

    /// The metadata of `key`'s object, without counting an access; `None` if the key is not there.
    pub async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        if self.is_held() {
            return Box::pin(self.peek_held(key)).await;
        }
        self.engine.peek(checked(key)?).await
    }

    /// What the engine knows of the accesses to `key`'s object, without counting one. There were
    /// none if the key is not there, or only in changes that are held back. `None` if the engine
    /// keeps nothing about single objects.
    pub async fn accesses(&self, key: &[u8]) -> Result<Option<Accesses>, CacheError> {
        self.engine.accesses(checked(key)?).await
    }

    /// Changes `key`'s object in one step, as the change decides; returns the token of the object
    /// that is there afterwards, if there is one.
    #[inline]
    pub async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        if self.is_held() {
            return Box::pin(self.update_held(checked(key)?, change)).await;
        }
        self.engine.update(checked(key)?, change).await
    }

    #[inline]
    async fn let_go_if_held(&self) -> Result<(), CacheError> {
        if self.is_held() { Box::pin(self.let_go()).await } else { Ok(()) }
    }

    async fn change<C: Removes>(&self, key: &[u8], change: &mut C) -> Result<u64, CacheError> {
        let is_noted = self.engine.removals().is_some_and(|removals| removals.notes(Cause::Removed));
        if is_noted {
            change.see();
        }
        let token = self.update(key, change).await?;
        if is_noted {
            self.note_removed(key, change.removed());
        }
        match change.refused() {
            Some(kind) => Err(CacheError::AnotherKind { kind }),
            None => Ok(token.unwrap_or(0)),
        }
    }

    #[cold]
    fn note_removed(&self, key: &[u8], removed: Option<(Meta, Cause)>) {
        if let (Some(removals), Some((meta, cause))) = (self.engine.removals(), removed) {
            removals.note(Removal { key: key.to_vec(), meta, cause });
        }
    }

    fn checked_length(&self, bytes: usize) -> Result<(), CacheError> {
        let max = self.engine.value_bytes_max();
        if bytes > max { Err(CacheError::ValueTooLarge { bytes, max }) } else { Ok(()) }
    }

    /// Sets `key` to `value`. An expiry in the past removes the key instead.
    pub async fn set(&self, key: &[u8], value: &[u8], options: &SetOptions) -> Result<SetOutcome, CacheError> {
        self.set_returning(key, value, options, None).await
    }

    /// As [`Cache::set`], and copies the old value into `old_value`. An old value that is no string
    /// is not replaced then: [`CacheError::AnotherKind`].
    pub async fn set_returning(
        &self,
        key: &[u8],
        value: &[u8],
        options: &SetOptions,
        old_value: Option<&mut Value>,
    ) -> Result<SetOutcome, CacheError> {
        self.checked_length(value.len())?;
        self.put(key, (Cow::Borrowed(value), None), options, old_value).await
    }

    async fn put(
        &self,
        key: &[u8],
        (value, staged): (Cow<'_, [u8]>, Option<Staged>),
        options: &SetOptions,
        mut old_value: Option<&mut Value>,
    ) -> Result<SetOutcome, CacheError> {
        let old_place = old_value.as_deref_mut().map(std::mem::take);
        let mut set = Set {
            value,
            staged,
            options: *options,
            old_value: old_place,
            old: None,
            stored: false,
            is_over: false,
            sees: false,
            refused: None,
        };
        let token = self.change(key, &mut set).await;
        give_back(old_value, &mut set.old_value);
        let token = token?;
        Ok(SetOutcome { stored: set.stored, old: set.old, token })
    }

    /// Removes `key`; returns whether it was there.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, CacheError> {
        self.take(key, None).await
    }

    /// Removes `key` and copies its value into `old_value`; returns whether it was there. A value
    /// that is asked for and is no string is not removed: [`CacheError::AnotherKind`].
    pub async fn take(&self, key: &[u8], mut old_value: Option<&mut Value>) -> Result<bool, CacheError> {
        let old_place = old_value.as_deref_mut().map(std::mem::take);
        let mut remove = Remove { old_value: old_place, old: None, refused: None };
        let changed = self.change(key, &mut remove).await;
        give_back(old_value, &mut remove.old_value);
        changed?;
        Ok(remove.old.is_some())
    }

    /// Sets when `key` expires.
    pub async fn expire(
        &self,
        key: &[u8],
        expiry: Expiry,
        condition: ExpireCondition,
    ) -> Result<ExpireOutcome, CacheError> {
        let mut expire = Expire { expiry, condition, ..Expire::default() };
        self.change(key, &mut expire).await?;
        Ok(expire.outcome)
    }

    /// Copies the value of `key` into `value` and sets its expiry, in one step; returns whether it
    /// was there. Refuses a value that is no string: [`CacheError::AnotherKind`].
    pub async fn get_and_expire(&self, key: &[u8], expiry: Expiry, value: &mut Value) -> Result<bool, CacheError> {
        let mut expire = Expire { expiry, value: Some(std::mem::take(value)), ..Expire::default() };
        let changed = self.change(key, &mut expire).await;
        give_back(Some(value), &mut expire.value);
        changed?;
        Ok(expire.outcome != ExpireOutcome::Absent)
    }

    /// Adds `by` to the decimal integer at `key`; an absent key counts as 0. Keeps the expiry.
    ///
    /// This and the other changes of a part of a value are for strings: a value of another kind is
    /// left as it is, and the error is [`CacheError::AnotherKind`].
    pub async fn increment(&self, key: &[u8], by: i64) -> Result<Number<i64>, CacheError> {
        let sum = self.increment_from(key, by, Some(Beginning::default())).await?;
        Ok(sum.expect("an absent key begins with 0"))
    }

    /// As [`Cache::increment`], and says what the object is like that it creates if the key is
    /// absent. Without a beginning an absent key stays absent, and the result is `None`.
    pub async fn increment_from(
        &self,
        key: &[u8],
        by: i64,
        beginning: Option<Beginning>,
    ) -> Result<Option<Number<i64>>, CacheError> {
        Ok(match self.rewrite(key, Edit::Add(by), beginning).await? {
            Rewritten::Integer(number) => Some(number),
            Rewritten::Absent => None,
            _ => Some(Number::NotANumber),
        })
    }

    /// Adds `by` to the decimal number at `key`; an absent key counts as 0. Keeps the expiry. The
    /// result is stored in the shortest form that reads back as the same `f64`.
    pub async fn increment_float(&self, key: &[u8], by: f64) -> Result<Number<f64>, CacheError> {
        Ok(match self.rewrite(key, Edit::AddFloat(by), Some(Beginning::default())).await? {
            Rewritten::Float(number) => number,
            _ => Number::NotANumber,
        })
    }

    /// Appends to the value of `key` and returns the new length. An absent value counts as empty.
    /// Keeps the expiry.
    pub async fn append(&self, key: &[u8], suffix: &[u8]) -> Result<usize, CacheError> {
        self.edit(key, Edit::Append(suffix.into())).await
    }

    /// Puts `prefix` before the value of `key` and returns the new length. An absent value counts
    /// as empty. Keeps the expiry.
    pub async fn prepend(&self, key: &[u8], prefix: &[u8]) -> Result<usize, CacheError> {
        self.edit(key, Edit::Prepend(prefix.into())).await
    }

    /// Overwrites the value of `key` from `offset` on, padding with zero bytes; returns the new
    /// length. Writing nothing changes nothing. Keeps the expiry.
    pub async fn set_range(&self, key: &[u8], offset: usize, bytes: &[u8]) -> Result<usize, CacheError> {
        if bytes.is_empty() {
            let meta = self.peek(key).await?.unwrap_or_default();
            return match meta.attributes.kind_of_bytes() {
                0 => Ok(meta.value_bytes),
                kind => Err(CacheError::AnotherKind { kind }),
            };
        }
        self.checked_length(offset.saturating_add(bytes.len()))?;
        self.edit(key, Edit::Overwrite { offset, bytes: bytes.into() }).await
    }

    /// The length after an edit that leaves a value.
    async fn edit(&self, key: &[u8], edit: Edit<'_>) -> Result<usize, CacheError> {
        match self.rewrite(key, edit, Some(Beginning::default())).await? {
            Rewritten::Length(bytes) => Ok(bytes),
            Rewritten::TooLong(bytes) => Err(CacheError::ValueTooLarge { bytes, max: self.engine.value_bytes_max() }),
            _ => Ok(0),
        }
    }

    async fn rewrite(&self, key: &[u8], edit: Edit<'_>, beginning: Option<Beginning>) -> Result<Rewritten, CacheError> {
        let bytes_max = self.engine.value_bytes_max();
        let mut change = Rewrite { edit, beginning, bytes_max, new: Vec::new(), outcome: None, old: None };
        self.change(key, &mut change).await?;
        Ok(change.outcome.expect("an engine that ends an update has called decide"))
    }

    /// The bytes of `key`'s value from `start` to `end`, both inclusive; empty if `key` is not
    /// there. A negative number counts from the end: -1 is the last byte. Both are clamped to the
    /// value.
    pub async fn get_range<'v>(
        &self,
        key: &[u8],
        start: i64,
        end: i64,
        into: &'v mut Value,
    ) -> Result<&'v [u8], CacheError> {
        let part = move |meta: Meta| {
            let length = meta.value_bytes as i64;
            let from = |index: i64| if index < 0 { length.saturating_add(index).max(0) } else { index };
            let (start, end) = (from(start), from(end).min(length - 1));
            if start > end { 0..0 } else { start as usize..end as usize + 1 }
        };
        Ok(if self.get_part(key, part, into).await?.is_some() { into.bytes() } else { &[] })
    }

    /// Shows at least `count` keys from `cursor` on, if there are as many, and returns the next
    /// cursor. The cursor 0 begins and ends a scan. A key that is present from the first call to
    /// the last is shown at least once.
    pub async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, each: F) -> Result<u64, CacheError> {
        self.let_go_if_held().await?;
        self.engine.scan(cursor, count, each).await
    }

    /// Some key that is present.
    pub async fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError> {
        self.let_go_if_held().await?;
        self.engine.random_key().await
    }

    /// Removes every key that was present at the start of the call; returns how many it removed.
    pub async fn flush(&self) -> Result<u64, CacheError> {
        let (mut removed, mut cursor) = (0, 0);
        loop {
            let step = self.flush_from(cursor).await?;
            (removed, cursor) = (removed + step.removed, step.next);
            if cursor == 0 {
                return Ok(removed);
            }
        }
    }

    /// One step of a flush: removes some keys from `cursor` on. The cursor 0 begins and ends a
    /// flush. A key that is present from the first call to the last is removed.
    pub async fn flush_from(&self, cursor: u64) -> Result<Flushed, CacheError> {
        self.let_go_if_held().await?;
        self.engine.flush(cursor).await
    }

    /// Objects in the pool, including expired objects that no client has found yet.
    pub async fn objects(&self) -> Result<u64, CacheError> {
        self.engine.objects().await
    }

    /// The pool's clock: milliseconds since the Unix epoch, never going back.
    pub async fn now_ms(&self) -> Result<u64, CacheError> {
        self.engine.now_ms().await
    }

    /// Announces that this client is alive, and looks after clients that may have died. Operations
    /// do this by themselves. An idle client should call it every tenth of a second.
    pub async fn tend(&self) -> Result<(), CacheError> {
        self.engine.tend().await
    }

    /// The longest value that this pool stores.
    pub fn value_bytes_max(&self) -> usize {
        self.engine.value_bytes_max()
    }

    /// This client's counters.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }
}

/// Parses a decimal integer by the rules of Redis: no blanks, no plus sign, no leading zeros, no
/// `-0`.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if canonical { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

/// Parses a finite or infinite decimal number; no blanks, no NaN.
pub fn parse_float(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use atoll_fabric::{Clock, run_ready};

    fn cache() -> (Cache<Model>, std::sync::Arc<std::sync::atomic::AtomicU64>) {
        let (clock, hand) = Clock::manual(1_000_000_000);
        (Cache::new(Model::new(clock)), hand)
    }

    #[test]
    fn an_increment_says_what_it_creates_and_keeps_what_is_there() {
        let (cache, hand) = cache();
        run_ready(async {
            assert_eq!(cache.increment_from(b"n", 5, None).await.unwrap(), None);
            assert_eq!(cache.peek(b"n").await.unwrap(), None);
            let attributes = Attributes { kind: 0, flags: 2 };
            let beginning = Some(Beginning { expiry: Expiry::InMs(1000), attributes });
            assert_eq!(cache.increment_from(b"n", 5, beginning).await.unwrap(), Some(Number::Value(5)));
            let begun = cache.peek(b"n").await.unwrap().unwrap();
            assert_eq!(begun.attributes, attributes);
            hand.fetch_add(10_000_000, std::sync::atomic::Ordering::Relaxed);
            let other = Some(Beginning { expiry: Expiry::Never, attributes: Attributes::NONE });
            assert_eq!(cache.increment_from(b"n", -7, other).await.unwrap(), Some(Number::Value(-2)));
            let kept = cache.peek(b"n").await.unwrap().unwrap();
            assert_eq!((kept.expiry_ms, kept.attributes), (begun.expiry_ms, attributes));
            assert_eq!(cache.increment_from(b"n", 1, None).await.unwrap(), Some(Number::Value(-1)));
        });
    }

    #[test]
    fn integers_are_read_as_redis_reads_them() {
        for (text, number) in [("0", Some(0)), ("-1", Some(-1)), ("9223372036854775807", Some(i64::MAX))] {
            assert_eq!(parse_integer(text.as_bytes()), number);
        }
        for text in ["", "+1", " 1", "01", "-0", "1 ", "9223372036854775808", "--1", "1e3"] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn an_increment_of_an_empty_value_is_refused_and_of_an_absent_one_counts_from_zero() {
        let (cache, _) = cache();
        run_ready(async {
            assert_eq!(cache.increment(b"n", 5).await.unwrap(), Number::Value(5));
            assert_eq!(cache.increment(b"n", i64::MAX).await.unwrap(), Number::Overflow);
            cache.set(b"e", b"", &SetOptions::default()).await.unwrap();
            assert_eq!(cache.increment(b"e", 1).await.unwrap(), Number::NotANumber);
            assert_eq!(cache.increment_float(b"n", 0.5).await.unwrap(), Number::Value(5.5));
        });
    }

    #[test]
    fn changes_that_are_for_strings_leave_a_value_of_another_kind_as_it_is() {
        let (cache, _) = cache();
        run_ready(async {
            let attributes = Attributes { kind: !Attributes::KIND_BITS | 1, flags: 7 };
            cache.set(b"k", b"1", &SetOptions { attributes, ..SetOptions::default() }).await.unwrap();
            let refused = CacheError::AnotherKind { kind: 1 };
            let mut value = Value::new();
            let later = Expiry::InMs(1000);
            assert_eq!(cache.increment(b"k", 1).await, Err(refused.clone()));
            assert_eq!(cache.increment_float(b"k", 1.0).await, Err(refused.clone()));
            assert_eq!(cache.append(b"k", b"1").await, Err(refused.clone()));
            assert_eq!(cache.prepend(b"k", b"1").await, Err(refused.clone()));
            assert_eq!(cache.set_range(b"k", 0, b"2").await, Err(refused.clone()));
            assert_eq!(cache.set_range(b"k", 0, b"").await, Err(refused.clone()));
            assert_eq!(cache.take(b"k", Some(&mut value)).await, Err(refused.clone()));
            assert_eq!(cache.get_and_expire(b"k", later, &mut value).await, Err(refused.clone()));
            let options = SetOptions::default();
            assert_eq!(cache.set_returning(b"k", b"2", &options, Some(&mut value)).await, Err(refused));
            assert!(cache.get(b"k", &mut value).await.unwrap());
            assert_eq!((value.bytes(), value.meta().attributes), (&b"1"[..], attributes));
            assert_eq!(value.meta().expiry_ms, None);
            // What asks for no string is for every kind.
            let outcome = cache.expire(b"k", later, ExpireCondition::default()).await.unwrap();
            assert_eq!((outcome, cache.delete(b"k").await), (ExpireOutcome::Set, Ok(true)));
        });
    }

    #[test]
    fn changes_of_a_string_keep_its_marks_and_one_that_is_set_anew_has_none() {
        let (cache, _) = cache();
        run_ready(async {
            let marked = Attributes { kind: !Attributes::KIND_BITS, flags: 7 };
            cache.set(b"k", b"1", &SetOptions { attributes: marked, ..SetOptions::default() }).await.unwrap();
            let mut value = Value::new();
            assert_eq!(cache.increment(b"k", 1).await, Ok(Number::Value(2)));
            assert_eq!(cache.append(b"k", b"1").await, Ok(2));
            assert_eq!(cache.set_range(b"k", 0, b"").await, Ok(2));
            assert_eq!(cache.get_and_expire(b"k", Expiry::InMs(1000), &mut value).await, Ok(true));
            assert_eq!((value.bytes(), value.meta().attributes), (&b"21"[..], marked));
            let set = cache.set_returning(b"k", b"3", &SetOptions::default(), Some(&mut value)).await.unwrap();
            assert_eq!((set.stored, set.old.unwrap().attributes), (true, marked));
            assert_eq!(cache.peek(b"k").await.unwrap().unwrap().attributes, Attributes::NONE);
        });
    }

    #[test]
    fn ranges_count_from_both_ends_and_are_clamped() {
        let (cache, _) = cache();
        run_ready(async {
            cache.set(b"k", b"Hello World", &SetOptions::default()).await.unwrap();
            let mut value = Value::new();
            for (start, end, slice) in [
                (0, 4, "Hello"),
                (-5, -1, "World"),
                (0, -1, "Hello World"),
                (5, 2, ""),
                (-100, 3, "Hell"),
                (20, 30, ""),
                (0, -100, "H"),
            ] {
                let found = cache.get_range(b"k", start, end, &mut value).await.unwrap();
                assert_eq!(found, slice.as_bytes(), "{start} {end}");
            }
            assert_eq!(cache.set_range(b"p", 3, b"x").await.unwrap(), 4);
            assert!(cache.get(b"p", &mut value).await.unwrap());
            assert_eq!(value.bytes(), b"\0\0\0x");
        });
    }

    #[test]
    fn expiry_follows_the_clock_and_its_conditions() {
        let (cache, hand) = cache();
        run_ready(async {
            let options = SetOptions { expiry: Expiry::InMs(100), ..SetOptions::default() };
            cache.set(b"k", b"v", &options).await.unwrap();
            let later = ExpireCondition { if_later: true, ..ExpireCondition::default() };
            assert_eq!(cache.expire(b"k", Expiry::InMs(50), later).await.unwrap(), ExpireOutcome::Refused);
            assert_eq!(cache.expire(b"k", Expiry::InMs(200), later).await.unwrap(), ExpireOutcome::Set);
            hand.fetch_add(150_000_000, std::sync::atomic::Ordering::Relaxed);
            assert!(cache.peek(b"k").await.unwrap().is_some());
            hand.fetch_add(50_000_000, std::sync::atomic::Ordering::Relaxed);
            // A client whose clock is behind has set the expiry.
            assert!(cache.peek(b"k").await.unwrap().is_some());
            hand.fetch_add(SKEW_MS * 1_000_000, std::sync::atomic::Ordering::Relaxed);
            assert!(cache.peek(b"k").await.unwrap().is_none());
        });
    }
}
