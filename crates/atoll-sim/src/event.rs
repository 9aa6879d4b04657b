//! What a history records: operations of clients on one key each, and what they returned.

use crate::linearizability::Span;

/// What a client asked of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Look it up, or peek.
    Get,
    /// Set it to a value.
    Set {
        /// The value.
        value: Vec<u8>,
        /// When the set takes place.
        condition: Condition,
        /// When the value expires.
        expiry: Expiry,
    },
    /// Remove it.
    Delete,
    /// Change when it expires.
    Expire {
        /// When.
        expiry: Expiry,
    },
    /// Add to the decimal integer there, an absent one being 0.
    Increment {
        /// The addend.
        by: i64,
    },
    /// Append to the value there, an absent one being empty.
    Append {
        /// What is appended.
        suffix: Vec<u8>,
    },
    /// Put something before the value there, an absent one being empty.
    Prepend {
        /// What comes before.
        prefix: Vec<u8>,
    },
    /// Overwrite from an offset on, padding with zero bytes.
    SetRange {
        /// Bytes before the first overwritten one.
        offset: usize,
        /// What is written; not empty.
        bytes: Vec<u8>,
    },
}

impl Call {
    /// A plain set.
    pub fn set(value: impl Into<Vec<u8>>) -> Self {
        Self::set_if(value, Condition::Always)
    }

    /// A set under a condition.
    pub fn set_if(value: impl Into<Vec<u8>>, condition: Condition) -> Self {
        Self::Set { value: value.into(), condition, expiry: Expiry::Never }
    }

    /// A set under a condition of a value that expires.
    pub fn set_until(value: impl Into<Vec<u8>>, condition: Condition, expiry: Expiry) -> Self {
        Self::Set { value: value.into(), condition, expiry }
    }
}

/// When something expires, on the pool's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Never.
    Never,
    /// When what is there does; never if nothing is there.
    Keep,
    /// At so many milliseconds since the Unix epoch.
    AtMs(u64),
    /// So many milliseconds after the time of the operation.
    InMs(u64),
}

/// Between which times an operation judged what has expired, and what it wrote begins to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The earliest of the pool's clock.
    pub least_ms: u64,
    /// The latest of the pool's clock.
    pub most_ms: u64,
    /// The latest from which a time to live may count; at least `most_ms`. A client need not look
    /// at the pool's clock for that, and the clock stands still where no client looks.
    pub counted_ms: u64,
}

impl Window {
    /// Of an operation of which nothing is known.
    pub const ANY: Self = Self::since(0);

    /// Of an operation that has not returned.
    pub const fn since(least_ms: u64) -> Self {
        Self { least_ms, most_ms: u64::MAX, counted_ms: u64::MAX }
    }
}

/// When a set takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Whatever is there.
    Always,
    /// Only if nothing is there.
    IfAbsent,
    /// Only if something is there.
    IfPresent,
    /// Only if what is there was written under this token.
    IfToken(u64),
}

/// What a client saw of what was there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// It did not look.
    #[default]
    Nothing,
    /// That nothing was there.
    Absent,
    /// That something was there.
    Present {
        /// Its value, if that was looked at.
        value: Option<Vec<u8>>,
        /// Its token, if that was looked at.
        token: Option<u64>,
    },
}

impl Seen {
    /// A value that was there.
    pub fn value(value: impl Into<Vec<u8>>) -> Self {
        Self::Present { value: Some(value.into()), token: None }
    }

    /// That something was there, or not.
    pub fn presence(present: bool) -> Self {
        if present { Self::Present { value: None, token: None } } else { Self::Absent }
    }
}

/// What an operation returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of a get, a delete, an expire: what was there before.
    Seen(Seen),
    /// Of a set, and of what changed nothing because of what it saw.
    Set {
        /// Whether the value was stored.
        stored: bool,
        /// What was there before.
        seen: Seen,
        /// The token of the stored value, if it was told.
        token: Option<u64>,
    },
    /// Of an expire to a moment that was over: something was there and is removed.
    Removed,
    /// Of an increment: the new number.
    Number(i64),
    /// Of an increment: the value there is no number.
    NotANumber,
    /// Of an increment: the number there is too large for the addend.
    Overflow,
    /// Of an append, prepend or set-range: the new length.
    Length(usize),
}

impl Outcome {
    /// A set that was stored, or refused, and saw nothing else.
    pub fn stored(stored: bool) -> Self {
        Self::Set { stored, seen: Seen::Nothing, token: None }
    }

    /// A lookup's value; `None` for a miss.
    pub fn get(value: Option<&[u8]>) -> Self {
        Self::Seen(value.map_or(Seen::Absent, Seen::value))
    }
}

/// One operation of one client on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The client's number.
    pub client: u32,
    /// The key.
    pub key: Vec<u8>,
    /// What was asked.
    pub call: Call,
    /// What was returned; `None` exactly if `span.returned` is: it never returned, or with an
    /// unknown outcome.
    pub outcome: Option<Outcome>,
    /// When.
    pub span: Span,
    /// When it judged.
    pub window: Window,
}
