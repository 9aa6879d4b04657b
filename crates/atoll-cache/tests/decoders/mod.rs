//! What every decoder of remote bytes must do with any bytes: refuse them, or give values within their bounds. Shared by the fuzz targets (`fuzz/`)
//! and a seeded test on the stable compiler.

#![allow(missing_docs, unreachable_pub, dead_code, reason = "every user takes its part")]

use atoll_cache::forge::ForgeSettings;
use atoll_cache::forge::group::{Contents, MapEntry};
use atoll_cache::forge::layout::{self, ForgeLayout};
use atoll_cache::forge::object::{HEADER_BYTES, Hasher, LARGE_RECORD_BYTES, Record, encode_large, encode_small};
use atoll_cache::forge::ring::Node;
use atoll_cache::forge::slot::{KeyHash, RecordLength, Slot, SlotFormat, UNIT_BYTES};
use atoll_fabric::Buffer;
use atoll_pool::nodes::NodeState;
use atoll_pool::{Chunk, header};

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    })
}

/// A pool's header, as it is and with its checksum set right, then the engine's settings and layout.
pub fn pool_header(bytes: &[u8]) {
    let region_bytes = words(bytes).next().unwrap_or(0);
    let mut header: Vec<u64> = words(bytes.get(8..).unwrap_or(&[])).take(32).collect();
    let _ = header::decode(&header, region_bytes);
    header.resize(32, 0);
    header::seal(&mut header);
    let Ok(pool) = header::decode(&header, region_bytes) else { return };
    assert!(pool.layout.end() <= region_bytes && pool.layout.chunks_max >= atoll_pool::layout::CHUNKS_MIN);
    let Ok(settings) = ForgeSettings::decode(&pool.settings) else { return };
    if let Ok(forge) = ForgeLayout::new(&pool, &settings) {
        let last = forge.slot(u64::from(settings.buckets) * layout::BUCKET_SLOTS as u64 - 1);
        let heap = match last.node() {
            0 => pool.layout.chunk(atoll_pool::ChunkId(0)).offset(),
            node => pool.layout.member_heap(node),
        };
        assert!(u32::from(last.node()) < pool.settings.nodes && last.offset() + 8 <= heap);
    }
}

/// A record, as it is and with its checksum set right.
pub fn record(bytes: &[u8]) {
    let hasher = Hasher::new(7);
    let mut buffer = Buffer::new();
    buffer.resize(bytes.len() / 8 * 8);
    let whole = buffer.len();
    buffer.bytes_mut().copy_from_slice(&bytes[..whole]);
    record_is_within(&buffer, &hasher);
    if whole < HEADER_BYTES {
        return;
    }
    let header = Record::unchecked_header(&buffer);
    let end = if header.large { LARGE_RECORD_BYTES as usize } else { HEADER_BYTES + header.body_bytes() };
    if end <= whole {
        buffer.words_mut()[0] = hasher.hash(&buffer.bytes()[8..end]);
        record_is_within(&buffer, &hasher);
        let decoded = Record::decode(&buffer, &hasher).expect("its checksum is right");
        let mut again = Buffer::new();
        match decoded.large() {
            Some(body) => encode_large(&mut again, &hasher, &decoded.header, &body),
            None => {
                let value = &buffer.bytes()[HEADER_BYTES + decoded.header.key_bytes..end];
                encode_small(&mut again, &hasher, &decoded.header, decoded.key, value);
            }
        }
        let second = Record::decode(&again, &hasher).expect("what was encoded decodes");
        assert_eq!((second.header, second.key, second.large()), (decoded.header, decoded.key, decoded.large()));
    }
}

fn record_is_within(buffer: &Buffer, hasher: &Hasher) {
    if let Some(record) = Record::decode(buffer, hasher) {
        let needed =
            if record.header.large { LARGE_RECORD_BYTES as usize } else { HEADER_BYTES + record.header.body_bytes() };
        assert!(needed <= buffer.len());
        assert!(record.header.large || record.key.len() == record.header.key_bytes);
    }
}

/// Every word that a pool keeps: slots, map entries, contents, nodes, chunk states.
pub fn slot_words(bytes: &[u8]) {
    let mut words = words(bytes);
    let heap_bytes = words.next().unwrap_or(0) % (1 << 48) + 1;
    let format = SlotFormat::new(heap_bytes);
    for word in words {
        let slot = Slot(word);
        let hash = KeyHash::new(word, (word >> 32) as u32 | 1);
        assert!(hash.bucket < (word >> 32) as u32 | 1);
        assert!(u32::from(slot.is_free()) + u32::from(slot.is_pending()) + u32::from(slot.is_live()) == 1);
        assert!(slot.length().bytes() <= (1 << 18) && format.heap_offset(slot) < 2 * heap_bytes.max(2 * UNIT_BYTES));
        assert!(slot.ghost_position(hash).is_none() || slot.is_free());
        let _ = (slot.any_ghost_position(), slot.may_be(hash.fingerprint), format.has_generation(slot, word as u32));
        let live = format.live(hash.fingerprint, RecordLength::of(word % (64 << 10) + 1), 0, word as u32);
        assert!(live.is_live() && format.has_generation(live, word as u32) && !live.is_large());
        assert_eq!(MapEntry::from_word(word).word(), word);
        let _ = (Contents::from_word(word), Node::from_word(word));
        if let Some(node) = NodeState::from_word(word) {
            assert_eq!(node.word(), word);
        }
        if let Some(chunk) = Chunk::from_word(word) {
            assert_eq!(chunk.word(), word);
        }
    }
}
