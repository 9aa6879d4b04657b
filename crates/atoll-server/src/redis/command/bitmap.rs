//! Values as arrays of bits. Bit 0 is the highest of the first byte.
//!
//! A change of one key is one atomic step for the whole pool. BITOP reads its keys and then writes
//! another: no other command of this server with one of these keys runs meanwhile, but other
//! processes of the pool may change a key in between.

use super::arguments::{integer, is};
use super::modify::{Modified, Subject, check_length, edit};
use super::{CommandError, Context, Outcome, string};
use crate::redis::events::Class;
use crate::redis::isolation::Turn;
use crate::redis::kind::Kind;
use crate::redis::resp::parser::BULK_BYTES_MAX;
use atoll_cache::{Engine, SetOptions, Value};
use std::borrow::Cow;
use std::ops::Range;

const OFFSET: &str = "ERR bit offset is not an integer or out of range";
const BIT: &str = "ERR bit is not an integer or out of range";

/// Bits that are looked at before other connections run.
const PIECE_BITS: usize = 8 << 22;
/// Bytes that BITOP joins before other connections run.
const PIECE_BYTES: usize = 1 << 20;

/// What the commands on bits change.
pub(super) const BITS: Subject = Subject { kind: Kind::STRING, class: Class::STRING, event: "setbit" };

/// The number of a bit that a value may have.
pub(super) fn bit_number(number: Option<i64>) -> Result<usize, CommandError> {
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.filter(|number| number / 8 < BULK_BYTES_MAX).ok_or_else(|| OFFSET.into())
}

fn bit(bytes: &[u8], number: usize) -> bool {
    bytes.get(number / 8).is_some_and(|byte| byte >> (7 - number % 8) & 1 == 1)
}

/// `SETBIT key offset bit`
pub async fn setbit<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let number = bit_number(integer(c.args.get(2)).ok())?;
    let to = match integer(c.args.get(3)) {
        Ok(to @ (0 | 1)) => to as u8,
        _ => return Err(BIT.into()),
    };
    check_length(c, number / 8 + 1)?;
    let key = c.key(1);
    let was = edit(c, &key, BITS, |_, value| {
        let (was, length) = (bit(value.bytes(), number), value.bytes().len());
        if was == (to == 1) && number / 8 < length {
            return Ok(Modified::Kept(was));
        }
        value.resize(length.max(number / 8 + 1));
        let (place, byte) = (7 - number % 8, &mut value.bytes_mut()[number / 8]);
        *byte = *byte & !(1 << place) | to << place;
        Ok(Modified::Put(was))
    });
    let was = was.await?;
    c.reply.yes(was);
    Ok(())
}

/// `GETBIT key offset`
pub async fn getbit<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let number = bit_number(integer(c.args.get(2)).ok())?;
    let byte = move |length: usize| (number / 8).min(length)..(number / 8 + 1).min(length);
    let length = c.look_at_part(1, Kind::STRING, byte).await?;
    let is_set = length.is_some() && bit(c.value.bytes(), number % 8);
    string::forget(c.value);
    c.reply.yes(is_set);
    Ok(())
}

/// The bits that a command asks for: from `start` to an inclusive `end`, both counted from the
/// value's end if negative.
#[derive(Clone, Copy)]
struct Asked {
    start: i64,
    end: i64,
    in_bits: bool,
}

impl Asked {
    /// Them, of a value of so many bytes.
    fn of(self, bytes: usize) -> Option<Span> {
        Span::of(bytes, self.start, self.end, self.in_bits)
    }

    /// The bytes that they lie in.
    fn part(self, bytes: usize) -> Range<usize> {
        self.of(bytes).map_or(0..0, |span| span.first / 8..span.end.div_ceil(8))
    }
}

/// The bits that a command looks at: from the first to before the last.
struct Span {
    first: usize,
    end: usize,
}

impl Span {
    /// What `start` and an inclusive `end` (both counted from the end if negative) say of a value
    /// of so many bytes; `None` if it is nothing.
    fn of(bytes: usize, start: i64, end: i64, in_bits: bool) -> Option<Self> {
        let unit = if in_bits { 1 } else { 8 };
        let units = (bytes * 8 / unit) as i64;
        let from = |index: i64| if index < 0 { index.saturating_add(units).max(0) } else { index };
        let (start, end) = (from(start), from(end).min(units - 1));
        (start <= end).then(|| Self { first: start as usize * unit, end: (end as usize + 1) * unit })
    }

    /// Calls `each(number of its first bit, byte, mask of the bits that count)` for every byte,
    /// until one returns `Some`.
    fn find<T>(&self, bytes: &[u8], mut each: impl FnMut(usize, u8, u8) -> Option<T>) -> Option<T> {
        if self.first == self.end {
            return None;
        }
        let (first, last) = (self.first / 8, (self.end - 1) / 8);
        bytes[first..=last].iter().zip(first..).find_map(|(&byte, index)| {
            let mut mask = 0xff;
            if index == first {
                mask &= 0xff >> (self.first % 8);
            }
            if index == last {
                mask &= 0xff << (7 - (self.end - 1) % 8);
            }
            each(index * 8, byte, mask)
        })
    }

    /// The same bits, if the value began with the byte of the first of them.
    fn in_part(&self) -> Self {
        let skipped = self.first / 8 * 8;
        Self { first: self.first - skipped, end: self.end - skipped }
    }

    /// Its parts of [`PIECE_BITS`], one after the other.
    fn pieces(&self) -> impl Iterator<Item = Self> + use<> {
        let end = self.end;
        (self.first..end).step_by(PIECE_BITS).map(move |first| Self { first, end: end.min(first + PIECE_BITS) })
    }

    /// The bytes in front of its first whole eight bytes, those, and the bytes behind them.
    fn parts(&self) -> [Self; 3] {
        let first = self.first.next_multiple_of(8).min(self.end);
        let end = first + (self.end - first) / 64 * 64;
        [(self.first, first), (first, end), (end, self.end)].map(|(first, end)| Self { first, end })
    }

    /// The words of a span of whole words.
    fn words<'b>(&self, bytes: &'b [u8]) -> &'b [[u8; 8]] {
        bytes[self.first / 8..self.end / 8].as_chunks().0
    }

    fn count(&self, bytes: &[u8]) -> usize {
        let [front, words, rear] = self.parts();
        let mut count = words.words(bytes).iter().map(|word| u64::from_ne_bytes(*word).count_ones() as usize).sum();
        for edge in [front, rear] {
            edge.find(bytes, |_, byte, mask| {
                count += (byte & mask).count_ones() as usize;
                None::<()>
            });
        }
        count
    }

    /// The number of the first bit that is `bit`.
    fn position(&self, bytes: &[u8], bit: bool) -> Option<usize> {
        let find = |span: &Self| {
            span.find(bytes, |number, byte, mask| {
                let found = if bit { byte & mask } else { !byte & mask };
                (found != 0).then(|| number + found.leading_zeros() as usize)
            })
        };
        let [front, words, rear] = self.parts();
        let without = [if bit { 0 } else { 0xff }; 8];
        let in_words = || {
            let index = words.words(bytes).iter().position(|word| *word != without)?;
            let first = words.first + 64 * index;
            find(&Self { first, end: first + 64 })
        };
        find(&front).or_else(in_words).or_else(|| find(&rear))
    }
}

/// Whether an argument says that numbers are those of bits, or of bytes.
fn in_bits(word: &[u8]) -> Result<bool, CommandError> {
    match () {
        () if is(word, "bit") => Ok(true),
        () if is(word, "byte") => Ok(false),
        () => Err(CommandError::Syntax),
    }
}

/// `BITCOUNT key [start end [BYTE | BIT]]`
pub async fn bitcount<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let args = c.args;
    let asked = || match args.len() {
        2 => Ok(Some(Asked { start: 0, end: -1, in_bits: false })),
        4 | 5 => {
            let (start, end) = (integer(args.get(2))?, integer(args.get(3))?);
            // Redis says this before it looks at the last word, and before it clamps.
            if start < 0 && end < 0 && start > end {
                return Ok(None);
            }
            let in_bits = args.len() == 5 && in_bits(args.get(4))?;
            Ok(Some(Asked { start, end, in_bits }))
        }
        _ => Err(CommandError::Syntax),
    };
    // What is asked matters only if there is a value.
    let asked = asked();
    let part = asked.as_ref().ok().copied().flatten();
    let length = c.look_at_part(1, Kind::STRING, move |length| part.map_or(0..0, |asked| asked.part(length))).await?;
    let Some(length) = length else {
        c.reply.count(0);
        return Ok(());
    };
    let mut count = 0;
    if let Some(span) = asked?.and_then(|asked| asked.of(length)) {
        let mut turn = c.turn();
        for piece in span.in_part().pieces() {
            count += piece.count(c.value.bytes());
            turn.yield_if_over().await;
        }
    }
    string::forget(c.value);
    c.reply.count(count);
    Ok(())
}

/// `BITPOS key bit [start [end [BYTE | BIT]]]`
pub async fn bitpos<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let args = c.args;
    let wanted = match integer(args.get(2))? {
        wanted @ (0 | 1) => wanted == 1,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let asked = || {
        let start = if args.len() > 3 { integer(args.get(3))? } else { 0 };
        let in_bits = args.len() == 6 && in_bits(args.get(5))?;
        let end = if args.len() > 4 { integer(args.get(4))? } else { -1 };
        if args.len() > 6 { Err(CommandError::Syntax) } else { Ok(Asked { start, end, in_bits }) }
    };
    let asked = asked();
    let part = asked.as_ref().ok().copied();
    let length = c.look_at_part(1, Kind::STRING, move |length| part.map_or(0..0, |asked| asked.part(length))).await?;
    let Some(length) = length else {
        // What is not there is zeros without end.
        c.reply.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let mut found = None;
    let span = asked?.of(length);
    if let Some(span) = &span {
        let mut turn = c.turn();
        for piece in span.in_part().pieces() {
            found = piece.position(c.value.bytes(), wanted).map(|number| span.first / 8 * 8 + number);
            if found.is_some() {
                break;
            }
            turn.yield_if_over().await;
        }
    }
    string::forget(c.value);
    c.reply.integer(match found {
        Some(number) => number as i64,
        // Behind a value whose end was not given stand zeros.
        None if span.is_some() && !wanted && args.len() <= 4 => length as i64 * 8,
        None => -1,
    });
    Ok(())
}

/// `BITOP AND | OR | XOR | NOT destination key...`
pub async fn bitop<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let word = c.args.get(1);
    let or: fn(&mut [u8], &[u8]) = |joined, bytes| join(joined, bytes, |one, other| one | other);
    let join: fn(&mut [u8], &[u8]) = match () {
        () if is(word, "and") => |joined, bytes| join(joined, bytes, |one, other| one & other),
        () if is(word, "or") => or,
        () if is(word, "xor") => |joined, bytes| join(joined, bytes, |one, other| one ^ other),
        () if is(word, "not") && c.args.len() > 4 => {
            return Err("ERR BITOP NOT must be called with a single source key.".into());
        }
        () if is(word, "not") => |_, _| (),
        () => return Err(CommandError::Syntax),
    };
    let inverts = is(word, "not");
    let (mut bytes, mut bytes_max) = (0, 0);
    for index in 3..c.args.len() {
        let length = c.cache.peek(&c.key(index)).await?.map_or(0, |meta| meta.value_bytes);
        (bytes, bytes_max) = (bytes + length, bytes_max.max(length));
    }
    c.moves(bytes + bytes_max, c.keys(2).into_iter().map(Cow::into_owned));
    let (mut joined, mut length, mut turn) = (Value::new(), 0, c.turn());
    for index in 3..c.args.len() {
        let is_there = c.look(index, Kind::STRING).await?;
        let bytes = if is_there { c.value.bytes() } else { &[] };
        length = length.max(bytes.len());
        if index == 3 && is_there && bytes.len() >= bytes_max {
            joined = std::mem::take(c.value);
            continue;
        }
        if index == 3 {
            joined.resize(bytes_max);
        }
        joined.resize(joined.bytes().len().max(length));
        // With zeros the first one is what it is.
        let with = if index == 3 { or } else { join };
        in_pieces(&mut turn, joined.bytes_mut(), bytes, with).await;
        string::forget(c.value);
    }
    // Another process may have made a value shorter since.
    joined.resize(length);
    if inverts {
        let invert = |piece: &mut [u8], _: &[u8]| piece.iter_mut().for_each(|byte| *byte = !*byte);
        in_pieces(&mut turn, joined.bytes_mut(), &[], invert).await;
    }
    let destination = c.key(2);
    if length == 0 {
        if c.cache.delete(&destination).await? {
            c.notify(Class::GENERIC, "del", c.args.get(2));
        }
    } else {
        let outcome = c.cache.set(&destination, joined.bytes(), &SetOptions::default()).await?;
        c.notify_set(&outcome, c.args.get(2));
    }
    string::forget(&mut joined);
    c.reply.count(length);
    Ok(())
}

/// Calls `each(piece, the bytes beside it)` for all pieces; other connections run in between.
async fn in_pieces(turn: &mut Turn<'_>, joined: &mut [u8], bytes: &[u8], each: fn(&mut [u8], &[u8])) {
    for (index, piece) in joined.chunks_mut(PIECE_BYTES).enumerate() {
        let beside = bytes.get(index * PIECE_BYTES..).unwrap_or_default();
        each(piece, &beside[..beside.len().min(piece.len())]);
        turn.yield_if_over().await;
    }
}

/// Joins bytes with others. Others that are missing are 0.
#[inline]
fn join(joined: &mut [u8], bytes: &[u8], with: impl Fn(u8, u8) -> u8) {
    let (beside, beyond) = joined.split_at_mut(bytes.len());
    beside.iter_mut().zip(bytes).for_each(|(one, other)| *one = with(*one, *other));
    beyond.iter_mut().for_each(|one| *one = with(*one, 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_and_found_wherever_a_span_begins_and_ends() {
        let mut random = 7_u64;
        let mut bytes: Vec<u8> = vec![0; 40];
        for round in 0..200 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Few bits, or few that are not.
            bytes.fill(if round % 2 == 0 { 0 } else { 0xff });
            bytes[(random >> 33) as usize % 40] ^= 1 << (random >> 60 & 7);
            let (first, length) = ((random >> 20) as usize % 200, (random >> 40) as usize % 120 + 1);
            let span = Span { first, end: first + length };
            let bits: Vec<bool> = (first..first + length).map(|number| bit(&bytes, number)).collect();
            assert_eq!(span.count(&bytes), bits.iter().filter(|bit| **bit).count());
            for wanted in [false, true] {
                let place = bits.iter().position(|bit| *bit == wanted).map(|place| first + place);
                assert_eq!(span.position(&bytes, wanted), place, "{first} {length} {wanted}");
            }
        }
    }
}
