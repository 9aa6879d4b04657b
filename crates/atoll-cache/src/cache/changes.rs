//! The changes of which the operations of a cache are made.

use super::{
    Beginning, Condition, ExpireCondition, ExpireOutcome, Expiry, Number, SetOptions, parse_float, parse_integer,
};
use crate::{Cause, Change, Meta, Old, Staged, Value, Verdict, Want};
use std::borrow::Cow;

/// Returns the buffer that a change borrowed for the present value.
pub(super) fn give_back(place: Option<&mut Value>, lent: &mut Option<Value>) {
    if let (Some(place), Some(value)) = (place, lent.take()) {
        *place = value;
    }
}

/// Keeps the value that a change has found, where it is asked for; what else is known of it.
fn keep(value: &mut Option<Value>, old: Option<Old<'_>>) -> Option<Meta> {
    let old = old?;
    if let Some(into) = value {
        into.assign(old.value, old.meta);
    }
    Some(old.meta)
}

/// The kind of the present value, if it is no string.
fn other_kind(old: Option<Old<'_>>) -> Option<u8> {
    let attributes = old?.meta.attributes;
    (!attributes.is_string()).then(|| attributes.kind_of_bytes())
}

/// A change that reports which object it has removed.
pub(super) trait Removes: Change {
    /// After an engine has applied the change: the kind of the present value, if the change is for
    /// strings and has left it alone because it is none.
    fn refused(&self) -> Option<u8>;

    /// The removed object and the cause, after an engine has applied the change.
    fn removed(&self) -> Option<(Meta, Cause)>;

    /// The program asks for removed objects, so the change must see the object.
    fn see(&mut self) {}
}

pub(super) struct Set<'a> {
    pub(super) value: Cow<'a, [u8]>,
    /// The value, if it was staged.
    pub(super) staged: Option<Staged>,
    pub(super) options: SetOptions,
    pub(super) old_value: Option<Value>,
    pub(super) old: Option<Meta>,
    pub(super) stored: bool,
    /// Whether its expiry is in the past, so that it removes the object.
    pub(super) is_over: bool,
    /// Whether it must see the present value, regardless of its condition.
    pub(super) sees: bool,
    /// The kind of the present value, if it was asked for as a string and is none.
    pub(super) refused: Option<u8>,
}

impl Removes for Set<'_> {
    fn refused(&self) -> Option<u8> {
        self.refused
    }

    fn removed(&self) -> Option<(Meta, Cause)> {
        let cause = if self.is_over { Cause::Removed } else { Cause::Replaced };
        self.old.filter(|_| self.stored).map(|old| (old, cause))
    }

    fn see(&mut self) {
        self.sees = true;
    }
}

impl Change for Set<'_> {
    fn wants(&self) -> Want {
        if self.old_value.is_some() { Want::Value } else { Want::Meta }
    }

    fn decide(&mut self, now_ms: u64, old: Option<Old<'_>>) -> Verdict {
        self.old = keep(&mut self.old_value, old);
        self.refused = other_kind(old).filter(|_| self.old_value.is_some());
        self.stored = match self.options.condition {
            _ if self.refused.is_some() => false,
            Condition::Always => true,
            Condition::IfAbsent => old.is_none(),
            Condition::IfPresent => old.is_some(),
            Condition::IfToken(token) => old.is_some_and(|old| old.meta.token == token),
        };
        let expiry_ms = self.options.expiry.at_ms(now_ms, self.old);
        self.is_over = expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms);
        match self.is_over {
            _ if !self.stored => Verdict::Leave,
            true => Verdict::Remove,
            false => Verdict::Put { expiry_ms, attributes: self.options.attributes },
        }
    }

    fn value(&self) -> &[u8] {
        &self.value
    }

    fn staged(&mut self) -> Option<&mut Staged> {
        self.staged.as_mut()
    }

    type Lasting = Set<'static>;

    fn lasting(&mut self) -> Set<'static> {
        let value = Cow::Owned(std::mem::take(&mut self.value).into_owned());
        Set { value, staged: self.staged.take(), old_value: self.old_value.take(), ..*self }
    }

    fn ended(&mut self, lasting: Set<'static>) {
        *self = lasting;
    }

    fn is_blind(&self) -> bool {
        self.options.condition == Condition::Always
            && self.options.expiry != Expiry::Keep
            && self.old_value.is_none()
            && self.staged.is_none()
            && !self.sees
    }
}

#[derive(Default)]
pub(super) struct Remove {
    pub(super) old_value: Option<Value>,
    pub(super) old: Option<Meta>,
    /// The kind of the present value, if it was asked for as a string and is none.
    pub(super) refused: Option<u8>,
}

impl Removes for Remove {
    fn refused(&self) -> Option<u8> {
        self.refused
    }

    fn removed(&self) -> Option<(Meta, Cause)> {
        self.old.filter(|_| self.refused.is_none()).map(|old| (old, Cause::Removed))
    }
}

impl Change for Remove {
    type Lasting = Self;

    fn lasting(&mut self) -> Self {
        std::mem::take(self)
    }

    fn ended(&mut self, lasting: Self) {
        *self = lasting;
    }

    fn wants(&self) -> Want {
        if self.old_value.is_some() { Want::Value } else { Want::Meta }
    }

    fn decide(&mut self, _now_ms: u64, old: Option<Old<'_>>) -> Verdict {
        self.old = keep(&mut self.old_value, old);
        self.refused = other_kind(old).filter(|_| self.old_value.is_some());
        if self.old.is_some() && self.refused.is_none() { Verdict::Remove } else { Verdict::Leave }
    }

    fn value(&self) -> &[u8] {
        &[]
    }
}

#[derive(Default)]
pub(super) struct Expire {
    pub(super) expiry: Expiry,
    pub(super) condition: ExpireCondition,
    pub(super) value: Option<Value>,
    pub(super) outcome: ExpireOutcome,
    pub(super) old: Option<Meta>,
    /// The kind of the present value, if it was asked for as a string and is none.
    pub(super) refused: Option<u8>,
}

impl Removes for Expire {
    fn refused(&self) -> Option<u8> {
        self.refused
    }

    fn removed(&self) -> Option<(Meta, Cause)> {
        self.old.filter(|_| self.outcome == ExpireOutcome::Removed).map(|old| (old, Cause::Removed))
    }
}

impl Change for Expire {
    type Lasting = Self;

    fn lasting(&mut self) -> Self {
        Self { value: self.value.take(), ..*self }
    }

    fn ended(&mut self, lasting: Self) {
        *self = lasting;
    }

    fn wants(&self) -> Want {
        if self.value.is_some() { Want::Value } else { Want::Meta }
    }

    fn decide(&mut self, now_ms: u64, old: Option<Old<'_>>) -> Verdict {
        self.old = old.map(|old| old.meta);
        self.refused = other_kind(old).filter(|_| self.value.is_some());
        let Some(old) = old else {
            self.outcome = ExpireOutcome::Absent;
            return Verdict::Leave;
        };
        if let Some(into) = &mut self.value {
            into.assign(old.value, old.meta);
        }
        let new = self.expiry.at_ms(now_ms, Some(old.meta));
        let (present, later) = (old.meta.expiry_ms, |ms: Option<u64>| ms.unwrap_or(u64::MAX));
        let condition = self.condition;
        let refused = self.refused.is_some()
            || condition.if_none && present.is_some()
            || condition.if_some && present.is_none()
            || condition.if_later && later(new) <= later(present)
            || condition.if_earlier && later(new) >= later(present);
        let (outcome, verdict) = match new {
            _ if refused => (ExpireOutcome::Refused, Verdict::Leave),
            Some(expiry_ms) if expiry_ms <= now_ms => (ExpireOutcome::Removed, Verdict::Remove),
            // Nothing would change, and rewriting the object would waste room.
            expiry_ms if expiry_ms == present => (ExpireOutcome::Set, Verdict::Leave),
            expiry_ms => (ExpireOutcome::Set, Verdict::Expire { expiry_ms }),
        };
        self.outcome = outcome;
        verdict
    }

    fn value(&self) -> &[u8] {
        &[]
    }
}

/// How a new value is made from the present one. An absent value counts as empty.
pub(super) enum Edit<'a> {
    /// Adds to a decimal integer.
    Add(i64),
    /// Adds to a decimal number.
    AddFloat(f64),
    Append(Cow<'a, [u8]>),
    Prepend(Cow<'a, [u8]>),
    Overwrite {
        offset: usize,
        bytes: Cow<'a, [u8]>,
    },
}

/// The outcome of an edit.
#[derive(Clone, Copy)]
pub(super) enum Rewritten {
    Integer(Number<i64>),
    Float(Number<f64>),
    /// The bytes of the new value.
    Length(usize),
    /// The length that the new value would have, which exceeds the limit. Nothing was changed.
    TooLong(usize),
    /// The present value is of this kind, and no string. Nothing was changed.
    OtherKind(u8),
    /// No value is present, and the edit is for a present one. Nothing was changed.
    Absent,
}

/// Appends both, in memory that has room for them.
fn join(new: &mut Vec<u8>, first: &[u8], then: &[u8]) {
    new.reserve_exact(first.len() + then.len());
    new.extend_from_slice(first);
    new.extend_from_slice(then);
}

impl Edit<'_> {
    /// Makes the `new` value.
    fn apply(&self, old: Option<&[u8]>, new: &mut Vec<u8>) -> Rewritten {
        let bytes = old.unwrap_or_default();
        match self {
            Self::Add(by) => {
                let Some(number) = old.map_or(Some(0), parse_integer) else {
                    return Rewritten::Integer(Number::NotANumber);
                };
                let Some(sum) = number.checked_add(*by) else { return Rewritten::Integer(Number::Overflow) };
                new.extend_from_slice(sum.to_string().as_bytes());
                return Rewritten::Integer(Number::Value(sum));
            }
            Self::AddFloat(by) => {
                let Some(number) = old.map_or(Some(0.0), parse_float) else {
                    return Rewritten::Float(Number::NotANumber);
                };
                let sum = number + by;
                if !sum.is_finite() {
                    return Rewritten::Float(Number::Overflow);
                }
                new.extend_from_slice(sum.to_string().as_bytes());
                return Rewritten::Float(Number::Value(sum));
            }
            Self::Append(suffix) => join(new, bytes, suffix),
            Self::Prepend(prefix) => join(new, prefix, bytes),
            Self::Overwrite { offset, bytes: over } => {
                let end = offset + over.len();
                new.extend_from_slice(bytes);
                new.resize(bytes.len().max(end), 0);
                new[*offset..end].copy_from_slice(over);
            }
        }
        Rewritten::Length(new.len())
    }

    fn into_owned(self) -> Edit<'static> {
        let owned = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
        match self {
            Self::Add(by) => Edit::Add(by),
            Self::AddFloat(by) => Edit::AddFloat(by),
            Self::Append(suffix) => Edit::Append(owned(suffix)),
            Self::Prepend(prefix) => Edit::Prepend(owned(prefix)),
            Self::Overwrite { offset, bytes } => Edit::Overwrite { offset, bytes: owned(bytes) },
        }
    }
}

/// A new value computed from the old one, keeping the expiry.
pub(super) struct Rewrite<'a> {
    pub(super) edit: Edit<'a>,
    /// What an absent key begins with; `None` if it is left absent.
    pub(super) beginning: Option<Beginning>,
    pub(super) bytes_max: usize,
    pub(super) new: Vec<u8>,
    pub(super) outcome: Option<Rewritten>,
    pub(super) old: Option<Meta>,
}

impl Rewritten {
    /// Whether there is a new value.
    fn is_value(self) -> bool {
        matches!(self, Self::Integer(Number::Value(_)) | Self::Float(Number::Value(_)) | Self::Length(_))
    }
}

impl Removes for Rewrite<'_> {
    fn refused(&self) -> Option<u8> {
        match self.outcome {
            Some(Rewritten::OtherKind(kind)) => Some(kind),
            _ => None,
        }
    }

    fn removed(&self) -> Option<(Meta, Cause)> {
        self.old.filter(|_| self.outcome.is_some_and(Rewritten::is_value)).map(|old| (old, Cause::Replaced))
    }
}

impl Change for Rewrite<'_> {
    type Lasting = Rewrite<'static>;

    fn lasting(&mut self) -> Rewrite<'static> {
        let edit = std::mem::replace(&mut self.edit, Edit::Add(0)).into_owned();
        Rewrite { edit, new: std::mem::take(&mut self.new), ..*self }
    }

    fn ended(&mut self, lasting: Rewrite<'static>) {
        *self = lasting;
    }

    fn wants(&self) -> Want {
        Want::Value
    }

    fn decide(&mut self, now_ms: u64, old: Option<Old<'_>>) -> Verdict {
        self.new.clear();
        let outcome = match other_kind(old) {
            Some(kind) => Rewritten::OtherKind(kind),
            None if old.is_none() && self.beginning.is_none() => Rewritten::Absent,
            None => match self.edit.apply(old.map(|old| old.value), &mut self.new) {
                Rewritten::Length(bytes) if bytes > self.bytes_max => Rewritten::TooLong(bytes),
                outcome => outcome,
            },
        };
        self.outcome = Some(outcome);
        self.old = old.map(|old| old.meta);
        match outcome.is_value() {
            true => {
                let Beginning { expiry, attributes } = self.beginning.unwrap_or_default();
                let begun = || (expiry.at_ms(now_ms, None), attributes);
                let (expiry_ms, attributes) = self.old.map_or_else(begun, |old| (old.expiry_ms, old.attributes));
                Verdict::Put { expiry_ms, attributes }
            }
            false => Verdict::Leave,
        }
    }

    fn value(&self) -> &[u8] {
        &self.new
    }
}
