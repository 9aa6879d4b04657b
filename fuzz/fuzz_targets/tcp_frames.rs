#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    atoll_fabric::tcp::parse_frames(&words);
});
