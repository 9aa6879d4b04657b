#![no_main]

#[path = "../../crates/atoll-cases/tests/engines/decoders.rs"]
mod decoders;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| decoders::record(bytes));
