//! What the parser makes of bytes, in one piece and in many: shared by the fuzz target and the test
//! on a stable compiler.

use atoll_server::redis::resp::{Parser, ProtocolError};

/// The commands of a connection, and the error that ended it.
pub(crate) type Parsed = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Parses what `bytes` holds entirely; gives where the rest begins.
fn parse(parser: &mut Parser, bytes: &[u8], parsed: &mut Parsed) -> usize {
    let mut start = 0;
    loop {
        match parser.parse(&bytes[start..]) {
            Ok(None) => return start,
            Ok(Some(taken)) => {
                assert!(taken > 0, "a command takes bytes");
                parsed.0.push(parser.args(&bytes[start..]).from(0).map(<[u8]>::to_vec).collect());
                start += taken;
            }
            Err(error) => {
                parsed.1 = Some(error);
                return start;
            }
        }
    }
}

/// What all bytes at once give.
pub(crate) fn whole(bytes: &[u8]) -> Parsed {
    let mut parsed = Parsed::default();
    parse(&mut Parser::new(), bytes, &mut parsed);
    parsed
}

/// What the bytes give if they arrive cut at `cuts`.
pub(crate) fn in_pieces(bytes: &[u8], cuts: &[usize]) -> Parsed {
    let mut cuts: Vec<usize> = cuts.iter().map(|&cut| cut.min(bytes.len())).chain([bytes.len()]).collect();
    cuts.sort_unstable();
    let (mut parser, mut parsed, mut start) = (Parser::new(), Parsed::default(), 0);
    for end in cuts {
        start += parse(&mut parser, &bytes[start..end], &mut parsed);
        if parsed.1.is_some() {
            break;
        }
    }
    parsed
}
