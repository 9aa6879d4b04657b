//! Integers of 1 to 64 bits within a value: BITFIELD and BITFIELD_RO.
//!
//! All parts of one command are one atomic step for the whole pool.
//!
//! A difference from Redis: with `OVERFLOW SAT` a SET of a number below the kind's least gives the
//! least. Where the distance to the kind's greatest has more than 63 bits, Redis gives the
//! greatest.

use super::arguments::{integer, is};
use super::bitmap::{BITS, bit_number};
use super::modify::{Modified, check_length, edit};
use super::{CommandError, Context, Outcome, string};
use crate::redis::resp::Args;
use atoll_cache::{Engine, cache::parse_integer};

/// What an integer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    is_signed: bool,
    /// At most 64 if it is signed, otherwise 63.
    bits: u32,
}

impl Kind {
    fn parse(word: &[u8]) -> Option<Self> {
        let (kind, bits) = word.split_first()?;
        let is_signed = match kind {
            b'i' => true,
            b'u' => false,
            _ => return None,
        };
        let bits = parse_integer(bits).and_then(|bits| u32::try_from(bits).ok())?;
        (1..=if is_signed { 64 } else { 63 }).contains(&bits).then_some(Self { is_signed, bits })
    }

    /// The least and the greatest number.
    fn range(self) -> (i128, i128) {
        match self.is_signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    /// The number whose lowest bits are those of `number`.
    fn wrapped(self, number: i128) -> i128 {
        let low = number & ((1 << self.bits) - 1);
        if self.is_signed && low >> (self.bits - 1) == 1 { low - (1 << self.bits) } else { low }
    }

    /// The number at bit `first`. Behind the value's end stand zeros.
    fn read(self, bytes: &[u8], first: usize) -> i128 {
        let bit = |number: usize| i128::from(bytes.get(number / 8).map_or(0, |byte| byte >> (7 - number % 8) & 1));
        self.wrapped((first..first + self.bits as usize).fold(0, |number, next| number << 1 | bit(next)))
    }

    /// Writes a number at bit `first` of a value that is long enough.
    fn write(self, bytes: &mut [u8], first: usize, number: i128) {
        for index in 0..self.bits as usize {
            let (place, bit) = (first + index, (number >> (self.bits as usize - 1 - index) & 1) as u8);
            let shift = 7 - place % 8;
            bytes[place / 8] = bytes[place / 8] & !(1 << shift) | bit << shift;
        }
    }
}

/// What happens to a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    fn parse(word: &[u8]) -> Option<Self> {
        match () {
            () if is(word, "wrap") => Some(Self::Wrap),
            () if is(word, "sat") => Some(Self::Saturate),
            () if is(word, "fail") => Some(Self::Fail),
            () => None,
        }
    }

    /// The number that is written for `number`, if one is.
    fn fitting(self, kind: Kind, number: i128) -> Option<i128> {
        let (least, greatest) = kind.range();
        match self {
            _ if (least..=greatest).contains(&number) => Some(number),
            Self::Wrap => Some(kind.wrapped(number)),
            Self::Saturate => Some(number.clamp(least, greatest)),
            Self::Fail => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Get,
    Set(i64),
    Increment(i64),
}

/// One part of a command.
#[derive(Clone, Copy, Debug)]
struct Part {
    act: Act,
    kind: Kind,
    first: usize,
    overflow: Overflow,
}

impl Part {
    /// The parts of a command.
    fn parse(args: Args<'_>) -> Result<Vec<Self>, CommandError> {
        let (mut parts, mut overflow, mut index) = (Vec::new(), Overflow::Wrap, 2);
        while index < args.len() {
            let (word, rest) = (args.get(index), args.len() - index - 1);
            if is(word, "overflow") && rest >= 1 {
                overflow = Overflow::parse(args.get(index + 1)).ok_or("ERR Invalid OVERFLOW type specified")?;
                index += 2;
                continue;
            }
            let takes = match () {
                () if is(word, "get") => 2,
                () if is(word, "set") || is(word, "incrby") => 3,
                () => return Err(CommandError::Syntax),
            };
            if rest < takes {
                return Err(CommandError::Syntax);
            }
            let kind = Kind::parse(args.get(index + 1)).ok_or(
                "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
            )?;
            let offset = args.get(index + 2);
            let first = bit_number(match offset.strip_prefix(b"#") {
                Some(number) => parse_integer(number).and_then(|number| number.checked_mul(i64::from(kind.bits))),
                None => parse_integer(offset),
            })?;
            let act = match takes {
                2 => Act::Get,
                _ if is(word, "set") => Act::Set(integer(args.get(index + 3))?),
                _ => Act::Increment(integer(args.get(index + 3))?),
            };
            parts.push(Self { act, kind, first, overflow });
            index += 1 + takes;
        }
        Ok(parts)
    }

    fn writes(&self) -> bool {
        self.act != Act::Get
    }

    /// Bytes that a value must have for it.
    fn bytes(&self) -> usize {
        (self.first + self.kind.bits as usize).div_ceil(8)
    }

    /// Does a part that writes; gives its reply.
    fn change(&self, bytes: &mut [u8]) -> Option<i64> {
        let old = self.kind.read(bytes, self.first);
        let (wanted, replies_old) = match self.act {
            Act::Get => return Some(old as i64),
            Act::Set(number) if self.kind.is_signed => (i128::from(number), true),
            // A negative number is a great one here.
            Act::Set(number) => (i128::from(number as u64), true),
            Act::Increment(by) => (old + i128::from(by), false),
        };
        let new = self.overflow.fitting(self.kind, wanted)?;
        self.kind.write(bytes, self.first, new);
        Some(if replies_old { old } else { new } as i64)
    }
}

/// Whether a BITFIELD with these words behind its key may change the value, also if they make no
/// sense.
pub(super) fn writes<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> bool {
    while let Some(word) = words.next() {
        let takes = match () {
            () if is(word, "get") => 2,
            () if is(word, "overflow") => 1,
            () => return true,
        };
        if words.by_ref().take(takes).count() < takes {
            return true;
        }
    }
    false
}

fn reply<G: Engine>(c: &mut Context<'_, G>, numbers: &[Option<i64>]) {
    c.reply.array(numbers.len());
    for number in numbers {
        match number {
            Some(number) => c.reply.integer(*number),
            None => c.reply.null(),
        }
    }
}

/// `BITFIELD key [GET kind offset | [OVERFLOW WRAP | SAT | FAIL] SET kind offset number | INCRBY
/// kind offset number]...`
pub async fn bitfield<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let parts = Part::parse(c.args)?;
    let Some(bytes) = parts.iter().filter(|part| part.writes()).map(Part::bytes).max() else {
        return look(c, &parts).await;
    };
    check_length(c, bytes)?;
    let key = c.key(1);
    let numbers = edit(c, &key, BITS, |_, value| {
        let length = value.bytes().len();
        let has_grown = bytes > length;
        value.resize(length.max(bytes));
        let new = value.bytes_mut();
        // A write that fails, or that puts the number that is there, changes nothing.
        let (mut numbers, mut has_changed) = (Vec::with_capacity(parts.len()), false);
        for part in &parts {
            let before = part.kind.read(new, part.first);
            let number = part.change(new);
            let is_other = has_grown || part.kind.read(new, part.first) != before;
            has_changed |= part.writes() && number.is_some() && is_other;
            numbers.push(number);
        }
        Ok(match (has_changed, has_grown) {
            (true, _) => Modified::Put(numbers),
            (false, true) => Modified::Grown(numbers),
            (false, false) => Modified::Kept(numbers),
        })
    });
    let numbers = numbers.await?;
    reply(c, &numbers);
    Ok(())
}

/// `BITFIELD_RO key [GET kind offset]...`
pub async fn bitfield_ro<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let parts = Part::parse(c.args)?;
    if parts.iter().any(Part::writes) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    look(c, &parts).await
}

async fn look<G: Engine>(c: &mut Context<'_, G>, parts: &[Part]) -> Outcome {
    let first = parts.iter().map(|part| part.first / 8).min().unwrap_or(0);
    let end = parts.iter().map(Part::bytes).max().unwrap_or(0);
    let asked = move |length: usize| first.min(length)..end.min(length);
    let is_there = c.look_at_part(1, BITS.kind, asked).await?.is_some();
    let bytes = if is_there { c.value.bytes() } else { &[] };
    let number = |part: &Part| Some(part.kind.read(bytes, part.first - 8 * first) as i64);
    let numbers: Vec<_> = parts.iter().map(number).collect();
    string::forget(c.value);
    reply(c, &numbers);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_edges_of_their_kinds() {
        let kind = |word: &[u8]| Kind::parse(word).unwrap();
        for (word, number, wrapped, saturated) in [
            (&b"u8"[..], 256, 0, 255),
            (b"u8", -1, 255, 0),
            (b"i8", 128, -128, 127),
            (b"i8", -129, 127, -128),
            (b"u63", 1 << 63, 0, (1 << 63) - 1),
            (b"i64", 1 << 63, -(1 << 63), (1 << 63) - 1),
            (b"u1", 2, 0, 1),
            (b"i1", 1, -1, 0),
        ] {
            assert_eq!(Overflow::Wrap.fitting(kind(word), number), Some(wrapped), "{number}");
            assert_eq!(Overflow::Saturate.fitting(kind(word), number), Some(saturated), "{number}");
            assert_eq!(Overflow::Fail.fitting(kind(word), number), None, "{number}");
        }
        for word in [&b"u64"[..], b"i65", b"u0", b"i0", b"x8", b"u", b"", b"u-1", b"u 8"] {
            assert_eq!(Kind::parse(word), None);
        }
    }

    #[test]
    fn what_is_written_is_read_wherever_it_lies() {
        for first in 0..17 {
            for bits in 1..=64 {
                let kind = Kind { is_signed: true, bits };
                let mut bytes = [0x5a; 16];
                let (least, greatest) = kind.range();
                for number in [least, greatest, 0, -1] {
                    kind.write(&mut bytes, first, number);
                    assert_eq!(kind.read(&bytes, first), number, "{bits} bits at {first}");
                }
            }
        }
    }
}
