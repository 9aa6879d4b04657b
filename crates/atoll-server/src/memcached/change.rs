//! The changes of memcached that the cache has no operation for.
//!
//! Stampede control needs two states of an item. They are marks beside the object's kind.
//!
//! | state | an item gets it | and loses it |
//! |---|---|---|
//! | stale | by `md I`, and by `ms I` with an older token | when it is stored |
//! | won | when a client is told to fill it (`W`) | when it is stored, or by `md I` |

use atoll_cache::{Attributes, CacheError, Change, Expiry, Meta, Old, Verdict, Want};
use std::borrow::Cow;

/// The item is stale.
pub(super) const STALE: u8 = 1 << 7;
/// A client fills it.
pub(super) const WON: u8 = 1 << 6;

const _: () = assert!((STALE | WON) & Attributes::KIND_BITS == 0);

/// Whether an object is one of memcached's, which are strings.
pub(super) fn is_item(meta: &Meta) -> bool {
    meta.attributes.is_string()
}

/// The outcome of an operation that reads an item: an object of another kind is none.
pub(super) fn if_item(found: Result<bool, CacheError>) -> Result<bool, CacheError> {
    match found {
        Err(CacheError::AnotherKind { .. }) => Ok(false),
        found => found,
    }
}

/// What becomes of an item.
pub(super) enum Edit<'a> {
    /// The bytes behind its own; it is not stale any more.
    Append(Cow<'a, [u8]>),
    /// The bytes before its own.
    Prepend(Cow<'a, [u8]>),
    /// Adds to a decimal number of 64 bits, which wraps, or takes away, down to 0. A result that is
    /// shorter than the value gets blanks behind it, as in memcached.
    Count {
        by: u64,
        down: bool,
        expiry: Option<Expiry>,
    },
    Remove,
    /// Makes it stale.
    Invalidate {
        expiry: Option<Expiry>,
    },
    /// A client that was told so fills it.
    Win,
    /// Stores bytes and flags: fresh under the token of the item, and stale under an older one. A
    /// stale item keeps its expiry.
    Refill {
        value: Cow<'a, [u8]>,
        flags: u32,
        expiry: Expiry,
    },
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Altered {
    Done,
    /// There is no item.
    Absent,
    /// It has another token.
    Exists,
    NotANumber,
    /// The value would be too long.
    TooLong,
}

/// A change of an item that is there.
pub(super) struct Alter<'a> {
    pub(super) edit: Edit<'a>,
    /// The token that the item must have.
    pub(super) cas: Option<u64>,
    pub(super) bytes_max: usize,
    /// Memory for the new value.
    pub(super) new: Vec<u8>,
    pub(super) outcome: Altered,
    /// The number that [`Edit::Count`] gave.
    pub(super) number: u64,
    /// The item before.
    pub(super) old: Meta,
    /// When it expires afterwards.
    pub(super) expiry_ms: Option<u64>,
}

impl<'a> Alter<'a> {
    pub(super) fn new(edit: Edit<'a>, cas: Option<u64>, bytes_max: usize, new: Vec<u8>) -> Self {
        let outcome = Altered::Absent;
        Self { edit, cas, bytes_max, new, outcome, number: 0, old: Meta::default(), expiry_ms: None }
    }

    /// The new value, in `new`, and what is said of it.
    fn edited(&mut self, now_ms: u64, old: Old<'_>) -> Result<Attributes, Altered> {
        let Attributes { kind, flags } = old.meta.attributes;
        let new = &mut self.new;
        match &self.edit {
            Edit::Append(bytes) | Edit::Prepend(bytes) if old.value.len() + bytes.len() > self.bytes_max => {
                return Err(Altered::TooLong);
            }
            Edit::Append(bytes) => new.extend([old.value, bytes].into_iter().flatten()),
            Edit::Prepend(bytes) => new.extend([&**bytes, old.value].into_iter().flatten()),
            Edit::Count { by, down, expiry } => {
                let number = super::number::unsigned(old.value).ok_or(Altered::NotANumber)?;
                self.number = if *down { number.saturating_sub(*by) } else { number.wrapping_add(*by) };
                new.extend_from_slice(itoa::Buffer::new().format(self.number).as_bytes());
                new.resize(new.len().max(old.value.len()), b' ');
                self.expiry_ms = expiry.map_or(self.expiry_ms, |expiry| expiry.at_ms(now_ms, None));
                return Ok(Attributes { kind, flags });
            }
            Edit::Invalidate { expiry } => {
                new.extend_from_slice(old.value);
                self.expiry_ms = expiry.map_or(self.expiry_ms, |expiry| expiry.at_ms(now_ms, None));
                return Ok(Attributes { kind: STALE, flags });
            }
            Edit::Remove => self.expiry_ms = Some(0),
            Edit::Win => {
                new.extend_from_slice(old.value);
                return Ok(Attributes { kind: kind | WON, flags });
            }
            Edit::Refill { value, flags, expiry } => {
                new.extend_from_slice(value);
                if self.cas != Some(old.meta.token) {
                    return Ok(Attributes { kind: kind & WON | STALE, flags: *flags });
                }
                self.expiry_ms = expiry.at_ms(now_ms, None);
                return Ok(Attributes { kind: 0, flags: *flags });
            }
        }
        Ok(Attributes { kind: 0, flags })
    }
}

impl Change for Alter<'_> {
    type Lasting = Alter<'static>;

    fn lasting(&mut self) -> Alter<'static> {
        let owned = |bytes: &mut Cow<'_, [u8]>| Cow::Owned(std::mem::take(bytes).into_owned());
        let edit = match &mut self.edit {
            Edit::Append(bytes) => Edit::Append(owned(bytes)),
            Edit::Prepend(bytes) => Edit::Prepend(owned(bytes)),
            Edit::Count { by, down, expiry } => Edit::Count { by: *by, down: *down, expiry: *expiry },
            Edit::Invalidate { expiry } => Edit::Invalidate { expiry: *expiry },
            Edit::Remove => Edit::Remove,
            Edit::Win => Edit::Win,
            Edit::Refill { value, flags, expiry } => {
                Edit::Refill { value: owned(value), flags: *flags, expiry: *expiry }
            }
        };
        Alter { edit, new: std::mem::take(&mut self.new), ..*self }
    }

    fn ended(&mut self, lasting: Alter<'static>) {
        *self = lasting;
    }

    fn wants(&self) -> Want {
        Want::Value
    }

    fn decide(&mut self, now_ms: u64, old: Option<Old<'_>>) -> Verdict {
        self.new.clear();
        let Some(old) = old.filter(|old| is_item(&old.meta)) else {
            self.outcome = Altered::Absent;
            return Verdict::Leave;
        };
        (self.old, self.expiry_ms) = (old.meta, old.meta.expiry_ms);
        // As in memcached: whether a value may be a number is judged in part before its token.
        if matches!(self.edit, Edit::Count { .. }) && old.value.is_empty() {
            self.outcome = Altered::NotANumber;
            return Verdict::Leave;
        }
        let is_other = self.cas.is_some_and(|cas| cas != old.meta.token);
        if is_other && !matches!(self.edit, Edit::Refill { .. }) {
            self.outcome = Altered::Exists;
            return Verdict::Leave;
        }
        let edited = self.edited(now_ms, old);
        let (outcome, verdict) = match edited {
            Err(outcome) => (outcome, Verdict::Leave),
            Ok(_) if self.expiry_ms.is_some_and(|ms| ms <= now_ms) => (Altered::Done, Verdict::Remove),
            Ok(attributes) => (Altered::Done, Verdict::Put { expiry_ms: self.expiry_ms, attributes }),
        };
        self.outcome = outcome;
        verdict
    }

    fn value(&self) -> &[u8] {
        &self.new
    }
}
