//! LCS: the longest common subsequence of two values.
//!
//! ```text
//!             b[0]  b[1]  ...     length[i][j] is that of the first i bytes of a, j of b
//!       a[0]                      equal bytes:  length[i-1][j-1] + 1
//!       a[1]                      others:       the larger of length[i-1][j] and length[i][j-1]
//!       ...
//! ```
//!
//! Two rows of lengths are kept, along the shorter value, and one bit for each pair of bytes: the
//! way back needs no more. As in Redis the pairs are limited. Other connections of the worker run
//! in between.

use super::arguments::{integer, is};
use super::{CommandError, Context, Outcome, string};
use crate::redis::isolation::Turn;
use crate::redis::kind::Kind;
use crate::redis::resp::parser::BULK_BYTES_MAX;
use atoll_cache::{Engine, Value};

/// Pairs of bytes that are compared before other connections run.
const STEP: usize = 1 << 20;
/// What Redis needs for a pair, which limits the pairs.
const PAIR_BYTES: usize = 4;

/// A part of both values that is the same: first and last place in each.
type Range = [(usize, usize); 2];

/// How to go back from every pair of bytes that are not equal.
struct Ways {
    /// Whether the outer loop was over the second value, which is longer.
    is_swapped: bool,
    inner: usize,
    /// For each pair: whether the first value is shortened.
    shortens_first: Vec<u64>,
    length: usize,
}

impl Ways {
    async fn find(a: &[u8], b: &[u8], wants_ways: bool, mut turn: Turn<'_>) -> Self {
        let is_swapped = b.len() > a.len();
        let (long, short) = if is_swapped { (b, a) } else { (a, b) };
        let bits = if wants_ways { long.len() * short.len() } else { 0 };
        let mut ways = Self { is_swapped, inner: short.len(), shortens_first: vec![0; bits.div_ceil(64)], length: 0 };
        let (mut before, mut now) = (vec![0_u32; short.len() + 1], vec![0_u32; short.len() + 1]);
        let mut compared = 0;
        for (outer, one) in long.iter().enumerate() {
            for (inner, other) in short.iter().enumerate() {
                now[inner + 1] = if one == other {
                    before[inner] + 1
                } else {
                    let (without_long, without_short) = (before[inner + 1], now[inner]);
                    let (without_first, without_second) = match is_swapped {
                        true => (without_short, without_long),
                        false => (without_long, without_short),
                    };
                    if wants_ways && without_first > without_second {
                        let bit = outer * short.len() + inner;
                        ways.shortens_first[bit / 64] |= 1 << (bit % 64);
                    }
                    without_first.max(without_second)
                };
            }
            std::mem::swap(&mut before, &mut now);
            compared += short.len();
            if compared >= STEP {
                compared = 0;
                turn.yield_if_over().await;
            }
        }
        ways.length = before[short.len()] as usize;
        ways
    }

    /// Whether the way back from behind these places shortens the first value.
    fn shortens_first(&self, a: usize, b: usize) -> bool {
        let (outer, inner) = if self.is_swapped { (b - 1, a - 1) } else { (a - 1, b - 1) };
        let bit = outer * self.inner + inner;
        self.shortens_first[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// The common subsequence, and the ranges that it consists of, the last one first.
    fn back(&self, a: &[u8], b: &[u8]) -> (Vec<u8>, Vec<Range>) {
        let (mut common, mut ranges) = (Vec::with_capacity(self.length), Vec::<Range>::new());
        let (mut i, mut j) = (a.len(), b.len());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                common.push(a[i]);
                match ranges.last_mut() {
                    Some([first, second]) if first.0 == i + 1 && second.0 == j + 1 => (first.0, second.0) = (i, j),
                    _ => ranges.push([(i, i), (j, j)]),
                }
            } else if self.shortens_first(i, j) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        common.reverse();
        (common, ranges)
    }
}

/// What the options say.
#[derive(Default)]
struct Options {
    length: bool,
    ranges: bool,
    with_lengths: bool,
    length_min: usize,
}

fn options<G: Engine>(c: &Context<'_, G>) -> Result<Options, CommandError> {
    let (mut options, mut rest) = (Options::default(), c.args.from(3));
    while let Some(word) = rest.next() {
        match () {
            () if is(word, "idx") => options.ranges = true,
            () if is(word, "len") => options.length = true,
            () if is(word, "withmatchlen") => options.with_lengths = true,
            () if is(word, "minmatchlen") => {
                let least = integer(rest.next().ok_or(CommandError::Syntax)?)?;
                options.length_min = usize::try_from(least).unwrap_or(0);
            }
            () => return Err(CommandError::Syntax),
        }
    }
    if options.ranges && options.length {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    Ok(options)
}

/// `LCS key key [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]`
pub async fn lcs<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let mut first = Value::new();
    let has_first = c.cache.get(&c.key(1), &mut first).await?;
    let has_second = c.cache.get(&c.key(2), c.value).await?;
    for (index, is_there) in [(1, has_first), (2, has_second)] {
        c.looked(c.args.get(index), is_there);
    }
    let is_other = |value: &Value| Kind::of(value.meta()) != Kind::STRING;
    if has_first && is_other(&first) || has_second && is_other(c.value) {
        string::forget(c.value);
        return Err("ERR The specified keys must contain string values".into());
    }
    let options = options(c)?;
    let a = if has_first { first.bytes() } else { &[] };
    let b = if has_second { c.value.bytes() } else { &[] };
    if (a.len() + 1).saturating_mul(b.len() + 1) > BULK_BYTES_MAX / PAIR_BYTES {
        return Err("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len".into());
    }
    let ways = Ways::find(a, b, !options.length, c.turn()).await;
    if options.length {
        c.reply.count(ways.length);
        return Ok(());
    }
    let (common, mut ranges) = ways.back(a, b);
    if !options.ranges {
        c.reply.bulk(&common);
        string::forget(c.value);
        return Ok(());
    }
    let length = |range: &Range| range[0].1 - range[0].0 + 1;
    ranges.retain(|range| length(range) >= options.length_min);
    c.reply.map(2);
    c.reply.bulk(b"matches");
    c.reply.array(ranges.len());
    for range in &ranges {
        c.reply.array(2 + usize::from(options.with_lengths));
        for (first, last) in range {
            c.reply.array(2);
            c.reply.count(*first);
            c.reply.count(*last);
        }
        if options.with_lengths {
            c.reply.count(length(range));
        }
    }
    c.reply.bulk(b"len");
    c.reply.count(ways.length);
    string::forget(c.value);
    Ok(())
}
