//! Bytes that are read as a HyperLogLog encode to the same registers, which estimate something. The
//! tests in `atoll-server/src/redis/hyperloglog.rs` hold the same on a stable compiler.
#![no_main]

use atoll_server::redis::hyperloglog::Registers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(mut registers) = Registers::read(bytes) else { return };
    let mut again = Vec::new();
    registers.encode(&mut again);
    assert_eq!(Registers::read(&again).unwrap().estimate(), registers.estimate());
    registers.add(bytes);
    assert!(!registers.add(bytes));
    let same = registers.clone();
    registers.merge(&same);
    assert_eq!(registers, same);
});
