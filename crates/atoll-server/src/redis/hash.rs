//! The bytes of a hash: its fields with their values, in the order in which the fields came.
//!
//! ```text
//! hash    pair...              at least one
//! pair    length field length value
//! length  LEB128: 7 bits a byte, the low ones first; the highest bit: another byte follows
//! ```
//!
//! No index stands in it: a lookup reads the pairs one after the other. A change writes the whole
//! value anew, so a hash has at most [`BYTES_MAX`]. Other processes write the pool, so bytes are a
//! hash only once [`Hash::read`] has walked all of them. They may have a field twice: its first
//! pair counts then.

use std::collections::HashMap;

/// The most bytes that a hash may have, as it is encoded.
pub const BYTES_MAX: usize = 1 << 20;

/// From so many fields on, those of a command are found by a table.
const TABLE_FIELDS_MIN: usize = 8;

/// A field and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// A hash, every pair of which lies within its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Hash<'a> {
    bytes: &'a [u8],
    /// How many pairs there are.
    count: usize,
}

impl<'a> Hash<'a> {
    /// The hash that `bytes` are; `None` if they are none, or more than a hash may have.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() > BYTES_MAX {
            return None;
        }
        let (mut rest, mut count) = (bytes, 0);
        while !rest.is_empty() {
            (_, rest) = split_pair(rest)?;
            count += 1;
        }
        (count > 0).then_some(Self { bytes, count })
    }

    /// How many fields it has: at least one.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Its fields with their values.
    pub fn pairs(&self) -> Pairs<'a> {
        Pairs(self.bytes)
    }

    /// The value of a field.
    pub fn get(&self, field: &[u8]) -> Option<&'a [u8]> {
        self.pairs().find(|(other, _)| *other == field).map(|(_, value)| value)
    }
}

/// The pairs of a hash, one after the other.
#[derive(Clone, Debug)]
pub struct Pairs<'a>(&'a [u8]);

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    #[inline]
    fn next(&mut self) -> Option<Pair<'a>> {
        let (pair, behind) = split_pair(self.0)?;
        self.0 = behind;
        Some(pair)
    }
}

/// The first pair, and what stands behind it.
fn split_pair(bytes: &[u8]) -> Option<(Pair<'_>, &[u8])> {
    let (field, rest) = split_text(bytes)?;
    let (value, rest) = split_text(rest)?;
    Some(((field, value), rest))
}

fn split_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = split_length(bytes)?;
    rest.split_at_checked(length)
}

fn split_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0_usize;
    for (index, byte) in bytes.iter().enumerate() {
        let bits = usize::from(byte & 0x7f);
        // A shift that would lose bits is no length.
        let shifted = bits.checked_shl(7 * index as u32).filter(|shifted| shifted >> (7 * index) == bits)?;
        length |= shifted;
        if byte & 0x80 == 0 {
            return Some((length, &bytes[index + 1..]));
        }
    }
    None
}

fn push_text(text: &[u8], into: &mut Vec<u8>) {
    let mut length = text.len();
    while length >= 0x80 {
        into.push(length as u8 | 0x80);
        length >>= 7;
    }
    into.push(length as u8);
    into.extend_from_slice(text);
}

/// Bytes of a text with its length.
fn text_bytes(text: &[u8]) -> usize {
    let bits = usize::BITS - text.len().leading_zeros();
    text.len() + bits.max(1).div_ceil(7) as usize
}

/// Appends a pair to the bytes of a hash.
pub fn push_pair((field, value): Pair<'_>, into: &mut Vec<u8>) {
    push_text(field, into);
    push_text(value, into);
}

/// Different fields, each with a place: those that a command names.
#[derive(Debug, Default)]
pub struct Fields<'a> {
    list: Vec<&'a [u8]>,
    table: HashMap<&'a [u8], usize>,
}

impl<'a> Fields<'a> {
    /// None, with room for so many. A table that grows would read all fields again at once.
    pub fn with_room(count: usize) -> Self {
        let in_table = if count < TABLE_FIELDS_MIN { 0 } else { count };
        Self { list: Vec::with_capacity(count), table: HashMap::with_capacity(in_table) }
    }

    /// The place of a field, if it is among them.
    pub fn place(&self, field: &[u8]) -> Option<usize> {
        match self.list.len() {
            ..TABLE_FIELDS_MIN => self.list.iter().position(|other| *other == field),
            _ => self.table.get(field).copied(),
        }
    }

    /// The place of a field, which is the next one if it was not among them.
    pub fn add(&mut self, field: &'a [u8]) -> usize {
        if let Some(place) = self.place(field) {
            return place;
        }
        let place = self.list.len();
        self.list.push(field);
        match self.list.len() {
            ..TABLE_FIELDS_MIN => {}
            TABLE_FIELDS_MIN => self.table.extend(self.list.iter().copied().zip(0..)),
            _ => _ = self.table.insert(field, place),
        }
        place
    }

    /// The fields in the order of their places.
    pub fn list(&self) -> &[&'a [u8]] {
        &self.list
    }
}

/// A hash would have so many bytes, which are more than [`BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hash would have {0} bytes, and the limit is {BYTES_MAX}: split it, since each change writes all of it")]
pub struct TooLong(pub usize);

/// A hash that is made anew from the one that is there, some pairs at a time: one with many fields
/// takes milliseconds.
#[derive(Debug)]
pub struct Remaking<'h, 'f> {
    old: Pairs<'h>,
    fields: &'f Fields<'f>,
    /// What the fields are set to; without that they are removed.
    values: Option<&'f [&'f [u8]]>,
    /// Of each field, whether the old hash has it, as far as that was read.
    was_there: Vec<bool>,
    /// The place of the next field to be added, once the old hash was read.
    next: usize,
    /// Bytes that the new hash has so far.
    bytes: usize,
    added: usize,
}

impl<'h, 'f> Remaking<'h, 'f> {
    fn new(old: Option<Hash<'h>>, fields: &'f Fields<'f>, values: Option<&'f [&'f [u8]]>) -> Self {
        let old = old.map_or(Pairs(&[]), |old| old.pairs());
        Self { old, fields, values, was_there: vec![false; fields.list.len()], next: 0, bytes: 0, added: 0 }
    }

    /// With these fields set to these values. A field that was there keeps its place among the
    /// pairs.
    pub fn set(old: Option<Hash<'h>>, fields: &'f Fields<'f>, values: &'f [&'f [u8]]) -> Self {
        assert_eq!(values.len(), fields.list.len(), "each field has a value");
        Self::new(old, fields, Some(values))
    }

    /// Without these fields.
    pub fn remove(old: Hash<'h>, fields: &'f Fields<'f>) -> Self {
        Self::new(Some(old), fields, None)
    }

    /// Writes at most so many further pairs into `new`; returns whether there are more. If the hash
    /// would be too long, `new` has a part of it, and memory for no more than one may have.
    pub fn step(&mut self, pairs_max: usize, new: &mut Vec<u8>) -> bool {
        for _ in 0..pairs_max {
            if let Some((field, value)) = self.old.next() {
                let place = self.fields.place(field);
                place.into_iter().for_each(|place| self.was_there[place] = true);
                match (place, self.values) {
                    (Some(_), None) => {}
                    (Some(place), Some(values)) => self.push((field, values[place]), new),
                    (None, _) => self.push((field, value), new),
                }
            } else if let Some((values, field)) = self.values.zip(self.fields.list.get(self.next)) {
                if !self.was_there[self.next] {
                    self.push((field, values[self.next]), new);
                    self.added += 1;
                }
                self.next += 1;
            } else {
                return false;
            }
        }
        true
    }

    fn push(&mut self, pair @ (field, value): Pair<'_>, new: &mut Vec<u8>) {
        self.bytes += text_bytes(field) + text_bytes(value);
        if self.bytes <= BYTES_MAX {
            push_pair(pair, new);
        }
    }

    /// How many of the fields are new, or how many of those to be removed were there. No pair is
    /// left to be written.
    pub fn end(self) -> Result<usize, TooLong> {
        match self.values {
            Some(_) if self.bytes > BYTES_MAX => Err(TooLong(self.bytes)),
            Some(_) => Ok(self.added),
            None => Ok(self.was_there.iter().filter(|was_there| **was_there).count()),
        }
    }

    /// Writes all pairs at once.
    pub fn whole(mut self, new: &mut Vec<u8>) -> Result<usize, TooLong> {
        while self.step(usize::MAX, new) {}
        self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        pairs.iter().for_each(|(field, value)| push_pair((field, value), &mut bytes));
        bytes
    }

    #[test]
    fn bytes_that_are_no_hash_are_refused() {
        let too_long = [[0xff; 9].as_slice(), &[0x7f]].concat();
        for bytes in [
            &b""[..],
            b"\x01",
            b"\x01f",
            b"\x01f\x02v",
            b"\x01f\x01v\x00",
            b"\x80",
            b"\x01f\xff\xff\xff\xff\x0fv",
            &[0xff; 16],
            &too_long,
            b"\x01f\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02",
        ] {
            assert!(Hash::read(bytes).is_none(), "{bytes:?}");
        }
        // A field that is there twice counts as its first pair says.
        let twice = Hash::read(b"\x01f\x01v\x01f\x01w").unwrap();
        assert_eq!((twice.count(), twice.get(b"f"), twice.get(b"g")), (2, Some(&b"v"[..]), None));
        let mut left = Vec::new();
        let mut fields = Fields::default();
        fields.add(b"f");
        assert_eq!((Remaking::remove(twice, &fields).whole(&mut left), left.len()), (Ok(1), 0));
    }

    #[test]
    fn lengths_are_as_short_as_they_can_be() {
        for (bytes, expected) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (BYTES_MAX, 3)] {
            let mut text = Vec::new();
            push_text(&vec![7; bytes], &mut text);
            assert_eq!((text.len(), text_bytes(&vec![7; bytes])), (expected + bytes, expected + bytes));
            assert_eq!(split_text(&text).unwrap(), (&vec![7; bytes][..], &b""[..]));
        }
    }

    #[test]
    fn a_hash_has_at_most_its_greatest_size() {
        let mut fields = Fields::default();
        fields.add(b"f");
        // The lengths take one byte and three.
        let longest = vec![7; BYTES_MAX - 5];
        let mut new = Vec::new();
        assert_eq!(Remaking::set(None, &fields, &[&longest]).whole(&mut new), Ok(1));
        assert_eq!((new.len(), Hash::read(&new).unwrap().get(b"f")), (BYTES_MAX, Some(&longest[..])));
        let hash = Hash::read(&new).unwrap();
        let mut more = Fields::default();
        more.add(b"g");
        let mut refused = Vec::new();
        assert_eq!(Remaking::set(Some(hash), &more, &[b""]).whole(&mut refused), Err(TooLong(BYTES_MAX + 3)));
        assert!(refused.len() <= BYTES_MAX);
        assert_eq!(Remaking::set(Some(hash), &fields, &[b""]).whole(&mut Vec::new()), Ok(0));
        // Other processes may write more.
        let longer = [&new[..], &[0, 0]].concat();
        assert!(Hash::read(&longer).is_none() && Hash::read(&longer[..BYTES_MAX]).is_some());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(
            bytes in proptest::collection::vec(prop_oneof![8 => 0_u8..5, 1 => 0x80_u8..0x83, 1 => any::<u8>()], 0..40),
        ) {
            if let Some(hash) = Hash::read(&bytes) {
                let pairs: Vec<_> = hash.pairs().map(|(field, value)| (field.to_vec(), value.to_vec())).collect();
                prop_assert_eq!(pairs.len(), hash.count());
                let again = encoded(&pairs);
                prop_assert!(Hash::read(&again).unwrap().pairs().eq(hash.pairs()));
            }
        }

        #[test]
        fn changes_are_those_of_a_list_of_pairs(
            steps in proptest::collection::vec(
                (any::<bool>(), proptest::collection::vec((0_u8..20, 0_usize..300), 1..14)), 1..20),
        ) {
            let (mut bytes, mut model) = (Vec::new(), Vec::<(Vec<u8>, Vec<u8>)>::new());
            for (sets, named) in steps {
                let (mut fields, mut values) = (Fields::default(), Vec::new());
                let named: Vec<_> = named.into_iter().map(|(field, bytes)| (vec![field; 3], vec![1; bytes])).collect();
                for (field, value) in &named {
                    let place = fields.add(field);
                    values.resize(fields.list().len(), &[][..]);
                    values[place] = value;
                }
                let (mut new, before) = (Vec::new(), model.len());
                let changed = if sets {
                    for (field, value) in &named {
                        match model.iter_mut().find(|(other, _)| other == field) {
                            Some((_, old)) => old.clone_from(value),
                            None => model.push((field.clone(), value.clone())),
                        }
                    }
                    {
                        let mut remaking = Remaking::set(Hash::read(&bytes), &fields, &values);
                        while remaking.step(3, &mut new) {}
                        remaking.end().unwrap()
                    }
                } else {
                    let Some(hash) = Hash::read(&bytes) else { continue };
                    model.retain(|(field, _)| named.iter().all(|(other, _)| other != field));
                    Remaking::remove(hash, &fields).whole(&mut new).unwrap()
                };
                prop_assert_eq!(changed, model.len().abs_diff(before));
                bytes = new;
                prop_assert_eq!(&bytes, &encoded(&model));
                for field in 0_u8..20 {
                    let field = vec![field; 3];
                    let expected = model.iter().find(|(other, _)| *other == field).map(|(_, value)| &value[..]);
                    prop_assert_eq!(Hash::read(&bytes).and_then(|hash| hash.get(&field)), expected);
                }
            }
        }
    }
}
