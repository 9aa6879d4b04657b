//! The promise of `fuzz/fuzz_targets/resp_parser.rs` on a stable compiler: bytes in one piece give
//! what they give in many.

use crate::common::pieces;
use proptest::prelude::*;

/// Bytes that are mostly commands, so that the parser gets beyond the first of them.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let arg = prop::collection::vec(any::<u8>(), 0..20);
    let multibulk = prop::collection::vec(arg, 0..5).prop_map(|args| {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
            bytes.extend(arg);
            bytes.extend(b"\r\n");
        }
        bytes
    });
    let part = prop_oneof![
        6 => multibulk,
        2 => "[ a-z\"'\\\\x0-9]{0,12}\r?\n".prop_map(String::into_bytes),
        2 => "[*$][-+0-9]{0,7}\r\n".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pieces_give_what_the_whole_gives(bytes in stream(), cuts in prop::collection::vec(0..200_usize, 0..12)) {
        prop_assert_eq!(pieces::whole(&bytes), pieces::in_pieces(&bytes, &cuts));
    }

    #[test]
    fn single_bytes_give_what_the_whole_gives(bytes in stream()) {
        let cuts: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(pieces::whole(&bytes), pieces::in_pieces(&bytes, &cuts));
    }

    #[test]
    fn any_bytes_are_borne(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let cuts: Vec<usize> = (0..bytes.len()).step_by(7).collect();
        prop_assert_eq!(pieces::whole(&bytes), pieces::in_pieces(&bytes, &cuts));
    }
}

#[test]
fn long_lines_are_refused_wherever_they_are_cut() {
    for head in ["*", "*1\r\n$", "x"] {
        for length in [65_530, 65_536, 65_537, 70_000] {
            let bytes = [head.as_bytes(), &vec![b'1'; length], b"\r\n"].concat();
            for cut in [10, 65_536, 65_540, bytes.len() - 1] {
                assert_eq!(pieces::whole(&bytes), pieces::in_pieces(&bytes, &[cut]), "{head} {length} {cut}");
            }
        }
    }
}
