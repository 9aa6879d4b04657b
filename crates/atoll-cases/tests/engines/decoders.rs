//! What every decoder of remote bytes must do with any bytes: refuse them, or give values within
//! their bounds. Shared by the fuzz targets (`fuzz/`) and a seeded test on the stable compiler.

#![allow(missing_docs, unreachable_pub, dead_code, reason = "every user takes its part")]

use atoll_baselines::cliquemap::entry::Entry;
use atoll_baselines::cliquemap::record as cliquemap_record;
use atoll_baselines::cliquemap::{CliqueMapSettings, wire};
use atoll_cache::ditto::DittoOptions;
use atoll_cache::forge::ForgeSettings;
use atoll_cache::forge::group::{Contents, MapEntry};
use atoll_cache::forge::layout::{self, ForgeLayout};
use atoll_cache::forge::ring::Node;
use atoll_cache::forge::slot::{self, KeyHash, RecordLength, Slot, SlotFormat, UNIT_BYTES};
use atoll_cache::record::{HEADER_BYTES, Hasher, LARGE_RECORD_BYTES, Record, encode_large, encode_small, seal};
use atoll_cache::table;
use atoll_cache::table::TableSettings;
use atoll_cache::table::access::{ACCESS_WORDS, Access};
use atoll_cache::table::cell::Cell;
use atoll_cache::table::class::Class;
use atoll_cache::table::layout::TableLayout;
use atoll_cache::table::slot::{EXPERTS_MAX, HEAP_BYTES_MAX, HISTORY_IDS};
use atoll_fabric::{Address, Buffer};
use atoll_pool::nodes::NodeState;
use atoll_pool::{Chunk, Pool, header};

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    })
}

/// A pool's header, as it is and with its checksum set right, then the engine's settings and
/// layout.
pub fn pool_header(bytes: &[u8]) {
    let region_bytes = words(bytes).next().unwrap_or(0);
    let mut header: Vec<u64> = words(bytes.get(8..).unwrap_or(&[])).take(32).collect();
    let _ = header::decode(&header, region_bytes);
    header.resize(32, 0);
    header::seal(&mut header);
    let Ok(pool) = header::decode(&header, region_bytes) else { return };
    assert!(pool.layout.end() <= region_bytes && pool.layout.chunks_max >= atoll_pool::layout::CHUNKS_MIN);
    if let Ok(settings) = ForgeSettings::decode(&pool.settings)
        && let Ok(forge) = ForgeLayout::new(&pool, &settings)
    {
        let last = forge.slot(u64::from(settings.buckets) * layout::BUCKET_SLOTS as u64 - 1);
        is_before_the_heap(&pool, last, 8);
    }
    if let Ok(settings) = CliqueMapSettings::decode(&pool.settings) {
        assert!(settings.buckets >= 1 && pool.settings.nodes_max == 1);
    }
    if let Ok(settings) = TableSettings::decode(&pool.settings) {
        assert!(settings.large_class.bytes() <= u64::from(pool.settings.chunk_bytes));
        if let Ok(ditto) = DittoOptions::decode(&settings) {
            assert!((1..=EXPERTS_MAX).contains(&ditto.experts.len()));
            assert!(ditto.experts.extension_words() as u64 * 8 <= settings.extension_bytes);
            assert!(ditto.learning.batch >= 1 && ditto.sample_buckets >= 1);
        }
        if let Ok(objects) = TableLayout::new(&pool, &settings) {
            let last = objects.access(u64::from(settings.buckets) * table::layout::BUCKET_SLOTS as u64 - 1);
            is_before_the_heap(&pool, last, table::layout::ACCESS_BYTES);
            let cells = objects.cells(pool.settings.clients_max - 1);
            is_before_the_heap(&pool, cells, 8 * table::layout::CELLS as u64);
        }
    }
}

/// What an engine's layout says is there is on a node of the pool, in front of its heap.
fn is_before_the_heap(pool: &Pool, at: Address, bytes: u64) {
    let heap = match at.node() {
        0 => pool.layout.chunk(atoll_pool::ChunkId(0)).offset(),
        node => pool.layout.member_heap(node),
    };
    assert!(u32::from(at.node()) < pool.settings.nodes && at.offset() + bytes <= heap);
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
    let value_at = header.value_at();
    let end = if header.large { LARGE_RECORD_BYTES as usize } else { value_at + header.value_bytes };
    // A header of a form that no client writes for such a key is refused whatever its checksum.
    let is_written = header.form_bits() == buffer.words()[0] >> 60 & 3;
    if end <= whole && is_written {
        seal(&mut buffer, &hasher, 0, &header);
        record_is_within(&buffer, &hasher);
        let decoded = Record::decode(&buffer, &hasher, 0).expect("its checksum is right");
        let mut again = Buffer::new();
        match decoded.large() {
            Some(body) => encode_large(&mut again, &hasher, &decoded.header, &body),
            None => {
                let value = &buffer.bytes()[decoded.value_at..end];
                encode_small(&mut again, &hasher, &decoded.header, decoded.key, value);
            }
        }
        let second = Record::decode(&again, &hasher, 0).expect("what was encoded decodes");
        assert_eq!((second.header, second.key, second.large()), (decoded.header, decoded.key, decoded.large()));
    }
}

fn record_is_within(buffer: &Buffer, hasher: &Hasher) {
    if let Some(record) = Record::decode(buffer, hasher, 0) {
        let needed =
            if record.header.large { LARGE_RECORD_BYTES as usize } else { record.value_at + record.header.value_bytes };
        assert!(needed <= buffer.len());
        assert!(record.header.large || record.key.len() == record.header.key_bytes);
    }
}

/// Every word that a pool keeps: slots, map entries, contents, nodes, chunk states.
pub fn slot_words(bytes: &[u8]) {
    let mut words = words(bytes);
    let heap_bytes = words.next().unwrap_or(0) % slot::HEAP_BYTES_MAX + 1;
    let format = SlotFormat::new(heap_bytes);
    for word in words {
        let slot = Slot(word);
        let hash = KeyHash::new(word, (word >> 32) as u32 | 1);
        assert!(hash.bucket < (word >> 32) as u32 | 1);
        assert!(u32::from(slot.is_free()) + u32::from(slot.is_pending()) + u32::from(slot.is_live()) == 1);
        assert!(slot.length().bytes() <= (1 << 18) && format.heap_offset(slot) < 2 * heap_bytes.max(2 * UNIT_BYTES));
        assert!(slot.ghost_position(hash).is_none() || slot.is_free());
        let _ = (slot.any_ghost_position(), slot.may_be(hash.fingerprint), format.has_generation(slot, word as u32));
        let live = format.live(hash.fingerprint, RecordLength::of(word % (64 << 10) + 1), 0, format.tag(word as u32));
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

/// Every word that a pool of the table of objects keeps: slots, history entries, cells, access
/// information.
pub fn object_words(bytes: &[u8]) {
    let words: Vec<u64> = words(bytes).collect();
    let large_class = Class::of(LARGE_RECORD_BYTES).expect("it is small");
    for &word in &words {
        let slot = table::slot::Slot(word);
        let buckets = (word >> 32) as u32 | 1;
        let hash = table::slot::KeyHash::new(word, buckets);
        assert!(hash.bucket < buckets);
        assert!(u32::from(slot.is_free()) + u32::from(slot.is_live()) <= 1);
        assert!(!(slot.is_live() && (slot.is_dead() || slot.is_pending())));
        assert!(slot.block().heap_offset() < HEAP_BYTES_MAX && !(slot.is_free() && slot.names(slot.block())));
        assert!(!slot.may_be(hash.fingerprint) || !(slot.is_free() || slot.is_dead()));
        if let Some(class) = slot.checked_class(large_class) {
            assert!((64..=32 << 10).contains(&class.bytes()) && class.index() < table::class::CLASSES);
            let dead = slot.buried(large_class);
            assert!(dead.is_dead() && !dead.is_live() && dead.checked_class(large_class) == Some(class));
            assert_eq!((dead.block(), dead.tag()), (slot.block(), slot.tag()));
        }
        assert!(slot.history_of(hash).is_none() || slot.any_history().is_some());
        if let Some((experts, id)) = slot.any_history() {
            assert!(slot.is_free() && experts != 0 && usize::from(experts) < 1 << EXPERTS_MAX && id < HISTORY_IDS);
        }
        let entry = table::slot::Slot::history(hash, word as u16, word);
        assert!(entry.is_free() && entry.history_of(hash).is_some_and(|(_, id)| id == word % HISTORY_IDS));
        if let Some(cell) = Cell::from_word(word) {
            assert_eq!(Cell::from_word(cell.word()), Some(cell));
        }
        if let Some(class) = Class::of(word) {
            assert!(class.bytes() >= word && Class::from_code(class.code()) == Some(class));
        }
    }
    for some in words.windows(ACCESS_WORDS + 1) {
        let (information, now_us) = (&some[..ACCESS_WORDS], some[ACCESS_WORDS]);
        let access = Access::decode(information, now_us);
        assert!(access.frequency >= 1 && access.bytes <= 64 * 0xffff);
        assert!(access.expiry_ms.is_none_or(|ms| ms > 0 && ms < 1 << 48));
        if Access::mark(information).is_none() {
            assert_eq!((access.inserted_us, access.last_us, access.frequency), (now_us, now_us, 1));
        }
    }
}

/// What CliqueMap's server and clients get from each other: messages, entries, records as they are
/// and with their checksum set right.
pub fn cliquemap(bytes: &[u8]) {
    match wire::decode(bytes) {
        Some((head, wire::Payload::Change(change, first, part))) => {
            assert!(first + part.len() <= change.body_bytes() && part.len() <= wire::PART_BYTES);
            assert!(first == 0 || first / wire::PART_BYTES < change.parts());
            let _ = head;
        }
        Some((_, wire::Payload::Accesses(accesses))) => assert!(accesses.iter().len() <= wire::LOG_ACCESSES),
        Some((head, wire::Payload::Answer(answer))) => {
            let mut again = Vec::new();
            wire::encode_answer(&mut again, &head, &answer);
            assert_eq!(wire::decode(&again), Some((head, wire::Payload::Answer(answer))));
        }
        Some((_, wire::Payload::Noted)) | None => {}
    }
    let words: Vec<u64> = words(bytes).collect();
    let heap_bytes = words.first().map_or(0, |word| word % (1 << 44));
    for entry in Entry::of_bucket(&words) {
        if let Some(span) = entry.span(heap_bytes) {
            assert!(
                span.offset + span.bytes <= heap_bytes && span.bytes >= cliquemap_record::RECORD_HEADER_BYTES as u64
            );
            assert_eq!(Entry::new(entry.hash, entry.version, span), entry);
        }
    }
    let hasher = Hasher::new(7);
    let mut buffer = Buffer::new();
    buffer.resize(bytes.len() / 8 * 8);
    let whole = buffer.len();
    buffer.bytes_mut().copy_from_slice(&bytes[..whole]);
    for end in cliquemap_record::RECORD_HEADER_BYTES..=whole {
        buffer.words_mut()[0] = hasher.hash(&buffer.bytes()[8..end]);
        if let Some(record) = cliquemap_record::Record::decode(&buffer, &hasher) {
            assert!(cliquemap_record::RECORD_HEADER_BYTES + record.key.len() + record.value.len() <= whole);
        }
    }
}
