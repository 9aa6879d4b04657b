//! Bytes of a memcached client parsed in one piece give what they give in many pieces, and none
//! makes the parser panic.
//!
//! The first byte is how many cuts there are, the next ones where; the rest is what a peer sends.
//! The test `memcached_parser` of atoll-server holds the same promise on a stable compiler.
#![no_main]

use atoll_server::memcached::parser::show;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&cuts, rest)) = data.split_first() else { return };
    let cuts = usize::from(cuts % 16).min(rest.len());
    let (cuts, bytes) = rest.split_at(cuts);
    let cuts: Vec<usize> = cuts.iter().map(|&cut| usize::from(cut) * (bytes.len() + 1) / 256).collect();
    assert_eq!(show(bytes, &[]), show(bytes, &cuts));
});
