//! The promise of `fuzz/fuzz_targets/memcached_parser.rs` on a stable compiler: bytes in one piece
//! give what they give in many.

use atoll_server::memcached::parser::{LINE_BYTES_MAX, show};
use proptest::prelude::*;

/// Bytes that are mostly requests, so that the parser gets beyond the first of them.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let data = || prop::collection::vec(any::<u8>(), 0..12);
    let name = prop_oneof![Just("set"), Just("add"), Just("append"), Just("cas"), Just("nothing")];
    let store = (name, "[a-c]{1,3}", data(), 0..4_usize, prop::option::of(Just(" noreply")));
    let store = store.prop_map(|(name, key, data, more, noreply)| {
        let token = if name == "cas" { " 7" } else { "" };
        let head = format!("{name} {key} 1 0 {}{token}{}\r\n", data.len() + more / 3, noreply.unwrap_or(""));
        [head.as_bytes(), &data, b"\r\n"].concat()
    });
    let meta = ("[gsdane]", "[a-z=]{1,5}", "( [a-zA-Z][0-9a-z]{0,3}){0,4}", data());
    let meta = meta.prop_map(|(command, key, flags, data)| match command.as_str() {
        "s" => [format!("ms {key} {}{flags}\r\n", data.len()).as_bytes(), &data, b"\r\n"].concat(),
        _ => format!("m{command} {key}{flags}\r\n").into_bytes(),
    });
    let line = "(get|gets|gat 5|incr|touch|delete|flush_all|stats|quit|set)( [-+a-z0-9]{0,5}){0,4}\r?\n";
    let large = "set k 0 0 1[0-9]{2}\r\n[a-z\r\n]{0,200}";
    let part = prop_oneof![
        4 => store,
        4 => meta,
        4 => line.prop_map(String::into_bytes),
        1 => large.prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pieces_give_what_the_whole_gives(bytes in stream(), cuts in prop::collection::vec(0..200_usize, 0..12)) {
        prop_assert_eq!(show(&bytes, &[]), show(&bytes, &cuts));
    }

    #[test]
    fn single_bytes_give_what_the_whole_gives(bytes in stream()) {
        let cuts: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(show(&bytes, &[]), show(&bytes, &cuts));
    }

    #[test]
    fn any_bytes_are_borne(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let cuts: Vec<usize> = (0..bytes.len()).step_by(7).collect();
        prop_assert_eq!(show(&bytes, &[]), show(&bytes, &cuts));
    }
}

#[test]
fn long_lines_are_refused_wherever_they_are_cut() {
    for head in ["get ", "gat 1 ", "set ", "x"] {
        for length in [LINE_BYTES_MAX - 10, LINE_BYTES_MAX, LINE_BYTES_MAX + 10] {
            let bytes = [head.as_bytes(), &b"k ".repeat(length / 2), b"\r\n"].concat();
            for cut in [3, 10, LINE_BYTES_MAX, LINE_BYTES_MAX + 2, bytes.len() - 1] {
                assert_eq!(show(&bytes, &[]), show(&bytes, &[cut]), "{head} {length} {cut}");
            }
        }
    }
}
