//! What a command prints: its result as JSON or as text.

use serde::Serialize;

/// Prints `result` as one JSON object, or as `text` has it.
pub fn print<R: Serialize>(json: bool, result: &R, text: impl FnOnce(&R) -> String) {
    if json {
        println!("{}", serde_json::to_string(result).expect("a result is plain data"));
    } else {
        print!("{}", text(result));
    }
}
