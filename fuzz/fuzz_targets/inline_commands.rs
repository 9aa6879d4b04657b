//! Inline commands: a line is words or an error, and words in quotes are the same words again.
#![no_main]

use atoll_server::redis::resp::Parser;

fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut parser = Parser::new();
    let taken = parser.parse(line).ok()?.expect("the line has its end");
    assert_eq!(taken, line.len());
    Some(parser.args(line).from(0).map(<[u8]>::to_vec).collect())
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // What begins with an asterisk is none, and longer lines are refused.
    if data.first() == Some(&b'*') || data.contains(&b'\n') || data.len() > 60_000 {
        return;
    }
    let Some(found) = words(&[data, b"\n"].concat()) else { return };
    let quoted: Vec<u8> = found
        .iter()
        .flat_map(|word| {
            let bytes = word.iter().flat_map(|byte| format!("\\x{byte:02x}").into_bytes());
            [vec![b'"'], bytes.collect(), b"\" ".to_vec()].concat()
        })
        .collect();
    if quoted.len() < 60_000 {
        assert_eq!(words(&[&quoted, &b"\r\n"[..]].concat()), Some(found));
    }
});
