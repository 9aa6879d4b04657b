//! One request of a trace.

/// The latest time that a trace may have: about the year 2242.
pub const TIME_S_MAX: u64 = 1 << 33;

/// What a client asked for, in memcached's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Read.
    #[default]
    Get,
    /// Read, with a token for [`Operation::Cas`].
    Gets,
    /// Write.
    Set,
    /// Write if absent.
    Add,
    /// Write if present.
    Replace,
    /// Write if unchanged.
    Cas,
    /// Write after the value.
    Append,
    /// Write before the value.
    Prepend,
    /// Remove.
    Delete,
    /// Add to a number.
    Incr,
    /// Subtract from a number.
    Decr,
}

impl Operation {
    /// Every operation with its name.
    const NAMES: [(Self, &str); 11] = [
        (Self::Get, "get"),
        (Self::Gets, "gets"),
        (Self::Set, "set"),
        (Self::Add, "add"),
        (Self::Replace, "replace"),
        (Self::Cas, "cas"),
        (Self::Append, "append"),
        (Self::Prepend, "prepend"),
        (Self::Delete, "delete"),
        (Self::Incr, "incr"),
        (Self::Decr, "decr"),
    ];

    /// The operation of that name, in small letters.
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| known.as_bytes() == name).map(|(operation, _)| *operation)
    }

    /// Its name, in small letters.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(operation, _)| *operation == self).expect("every operation has a name").1
    }

    /// What it does to a cache that a replay fills.
    ///
    /// A replay holds no meaningful values. A write of any kind leaves an object of the traced
    /// size; the condition of `replace`, `cas`, `append`, `prepend`, `incr` and `decr` held when
    /// the trace was taken, where the cache was another one.
    pub fn effect(self) -> Effect {
        match self {
            Self::Get | Self::Gets => Effect::Look,
            Self::Add => Effect::WriteIfAbsent,
            Self::Delete => Effect::Remove,
            _ => Effect::Write,
        }
    }
}

/// What a request does to a cache that a replay fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A look-up, followed by a write if it misses.
    Look,
    /// A write, which also counts as a look-up.
    Write,
    /// The same, and the write takes place only after a miss.
    WriteIfAbsent,
    /// A removal, which counts as neither hit nor miss.
    Remove,
}

/// One request of a trace. Reuse one: its key keeps its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Seconds on the trace's clock.
    pub time_s: u64,
    /// What identifies the object; 8 bytes where the source has numbers.
    pub key: Vec<u8>,
    /// Length of the key where the trace was taken, which may be another than that of `key`, since
    /// published keys are anonymised.
    pub key_bytes: u32,
    /// Length of the value; of the whole object where the source does not tell them apart.
    pub value_bytes: u64,
    /// What was asked for.
    pub operation: Operation,
    /// Seconds until the object expires; 0 for never.
    pub ttl_s: u64,
}

impl Request {
    /// The key as a number: itself where the source has numbers, else a hash of it.
    pub fn key_number(&self) -> u64 {
        match <[u8; 8]>::try_from(&*self.key) {
            Ok(id) => u64::from_le_bytes(id),
            Err(_) => rapidhash::v3::rapidhash_v3(&self.key),
        }
    }

    /// Makes `id` the key.
    pub(crate) fn set_key(&mut self, id: u64) {
        self.key.clear();
        self.key.extend_from_slice(&id.to_le_bytes());
        self.key_bytes = 8;
    }
}
