//! The properties of the fuzz targets, with bytes from a seeded generator.

use crate::decoders;
use atoll_baselines::cliquemap::wire;
use atoll_cache::ditto::DittoOptions;
use atoll_cache::forge::ForgeOptions;
use atoll_sim::Random;

/// Bytes of every kind: noise, small numbers, edges, and one bit set.
fn bytes(random: &mut Random, length_max: u64) -> Vec<u8> {
    let words = random.below(length_max / 8);
    let mut bytes: Vec<u8> = (0..words)
        .flat_map(|_| {
            let word = match random.below(5) {
                0 => random.word(),
                1 => random.word() >> random.below(64),
                2 => 1 << random.below(64),
                3 => u64::MAX << random.below(64),
                _ => random.below(64),
            };
            word.to_le_bytes()
        })
        .collect();
    bytes.truncate(bytes.len() - (random.below(8) as usize).min(bytes.len()));
    bytes
}

/// A region's length and a sound header, with some words of other kinds.
fn header(random: &mut Random) -> Vec<u8> {
    let is_forge = random.below(2) == 0;
    let settings = match is_forge {
        true => ForgeOptions::default().for_capacity(1 << 20),
        false => DittoOptions::default().for_capacity(1 << 20),
    };
    let mut words = [0; 33];
    (words[0], words[2], words[3], words[4]) = (1 << 20, settings.capacity_bytes, settings.chunk_bytes.into(), 100);
    (words[5], words[7], words[8]) = (settings.clients_max.into(), settings.group_objects_max.into(), settings.engine);
    words[9..17].copy_from_slice(&settings.engine_settings);
    let area = match is_forge {
        true => atoll_cache::forge::layout::engine_area(&settings),
        false => atoll_cache::table::layout::engine_area(&settings),
    };
    (words[19], words[20], words[23]) = (area.home_bytes, 1 | 4 << 32, area.share_bytes);
    if random.below(2) == 0 {
        // Several nodes, and more to come.
        (words[20], words[21], words[22], words[23]) = (3 | 4 << 32, 1 << 18, 1 << 20, area.home_bytes);
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for _ in 0..random.below(4) {
        let at = random.below(33) as usize;
        let word = match random.below(3) {
            0 => words[at] ^ 1 << random.below(64),
            1 => u64::MAX << random.below(64),
            _ => random.word() >> random.below(64),
        };
        bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// A message of CliqueMap's, with some words of other kinds.
fn message(random: &mut Random) -> Vec<u8> {
    let head = wire::Head {
        client: atoll_pool::Incarnation { slot: 1, epoch: 2 },
        server_epoch: 3,
        sequence: random.word() >> random.below(64),
    };
    let mut message = Vec::new();
    if random.below(4) == 0 {
        wire::encode_accesses(&mut message, &head, (0..random.below(130)).map(|age_us| (age_us, 7)));
    } else {
        let (operation, condition) = (wire::Operation::Put, wire::Condition::Version(9));
        let value = vec![1; random.below(100) as usize];
        let value_bytes = value.len() as u32;
        let change = wire::Change { operation, condition, expiry_ms: None, key_bytes: 3, value_bytes };
        wire::encode_change(&mut message, &head, &change, 0, b"key", &value);
    }
    for _ in 0..random.below(3) {
        let at = random.below(message.len() as u64) as usize;
        message[at] = random.word() as u8 >> random.below(8);
    }
    message
}

#[test]
fn promise_6_every_decoder_refuses_any_bytes_or_stays_within_its_bounds() {
    let mut random = Random::new(6);
    for _ in 0..100_000 {
        decoders::pool_header(&bytes(&mut random, 300));
        decoders::pool_header(&header(&mut random));
        decoders::record(&bytes(&mut random, 400));
        decoders::slot_words(&bytes(&mut random, 100));
        decoders::object_words(&bytes(&mut random, 100));
        decoders::cliquemap(&bytes(&mut random, 100));
        decoders::cliquemap(&message(&mut random));
    }
}
