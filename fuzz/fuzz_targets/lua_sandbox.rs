//! Scripts: any text replies or fails within its time and memory, and leaves an interpreter that
//! runs the next one.
//!
//! With an odd first byte the other bytes are the text. With an even one each stands for a word:
//! so most texts are more than an error of the compiler.
#![no_main]

mod sanitizer;

use atoll_server::redis::script::sandbox::Sandbox;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_millis(20);

/// Words of Lua, and what scripts see.
const WORDS: &[&str] = &[
    "return",
    "local",
    "a",
    "b",
    "t",
    "=",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ",",
    ";",
    "..",
    ":",
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "#",
    "==",
    "~=",
    "<",
    "<=",
    ">",
    ">=",
    "and",
    "or",
    "not",
    "nil",
    "true",
    "false",
    "function",
    "end",
    "if",
    "then",
    "else",
    "elseif",
    "while",
    "do",
    "for",
    "in",
    "repeat",
    "until",
    "break",
    "...",
    "0",
    "1",
    "2",
    "10",
    "1e9",
    "0.5",
    "-1",
    "'x'",
    "'a*'",
    "'%d+'",
    "''",
    "'\\0'",
    "ARGV",
    "KEYS",
    "pairs",
    "ipairs",
    "next",
    "type",
    "tostring",
    "tonumber",
    "pcall",
    "xpcall",
    "error",
    "select",
    "unpack",
    "setmetatable",
    "getmetatable",
    "rawget",
    "rawset",
    "rawequal",
    "loadstring",
    "collectgarbage",
    "string.rep",
    "string.format",
    "string.gsub",
    "string.find",
    "string.gmatch",
    "string.byte",
    "string.char",
    "string.sub",
    "string.reverse",
    "table.concat",
    "table.insert",
    "table.remove",
    "table.sort",
    "math.random",
    "math.floor",
    "cjson.encode",
    "cjson.decode",
    "bit.band",
    "bit.tohex",
    "bit.lshift",
    "redis.call",
    "redis.pcall",
    "redis.sha1hex",
    "redis.error_reply",
    "redis.status_reply",
    "redis.acl_check_cmd",
    "redis.log",
    "os.clock",
    "_G",
    "{__index = function() return t end}",
    "{__call = pcall}",
    "function(...) return ... end",
    "for i = 1, 100 do",
    "for k, v in pairs(t) do",
    "local t = {}",
    "t[1] = t",
    "t[#t + 1] =",
    "a = a or 'x'",
    "\n",
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let script = match first % 2 {
        1 => rest.to_vec(),
        _ => {
            let words = rest.iter().map(|byte| WORDS[usize::from(*byte) % WORDS.len()]);
            words.flat_map(|word| [word, " "]).collect::<String>().into_bytes()
        }
    };
    // The sanitizer sees no stack that a script has left, so none is kept for the next text.
    let mut sandbox = Sandbox::new();
    let began = Instant::now();
    let _ = sandbox.run(&script, &[b"a", b"2"], TIME);
    assert!(began.elapsed() < 100 * TIME, "{:?}", began.elapsed());
    let whole = b"return {('x'):rep(2), type(redis.call), cjson.encode({1}), #KEYS, rawget(_G, 'x') == nil}";
    let reply = sandbox.run(whole, &[], 100 * TIME);
    let expected = b"*5\r\n$2\r\nxx\r\n$8\r\nfunction\r\n$3\r\n[1]\r\n:0\r\n:1\r\n";
    assert_eq!(reply.as_deref(), Ok(&expected[..]));
});
