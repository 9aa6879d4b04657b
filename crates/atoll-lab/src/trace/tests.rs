//! Whole files are read, damaged ones are refused.

use super::*;
use crate::fixtures;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Write;

fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::File::create(&path).unwrap().write_all(content).unwrap();
    (folder, path)
}

fn record(time_s: u32, id: u64, bytes: u32, next: i64) -> Vec<u8> {
    [&time_s.to_le_bytes()[..], &id.to_le_bytes(), &bytes.to_le_bytes(), &next.to_le_bytes()].concat()
}

fn packed(plain: &[u8]) -> Vec<u8> {
    compress_to_vec(plain, CompressionLevel::Fastest)
}

fn read(name: &str, content: &[u8]) -> Result<Vec<Request>, String> {
    let (_folder, path) = file(name, content);
    Trace::open_file(&path).and_then(Iterator::collect).map_err(|error: TraceError| error.to_string())
}

#[test]
fn records_are_read_plain_and_compressed_whatever_the_name() {
    let plain = [record(5, 77, 9, 2), record(6, 77, 9, -1), record(7, 78, 1, i64::MAX)].concat();
    let packed = packed(&plain);
    let expected = read("t.oracleGeneral", &plain).unwrap();
    assert_eq!(expected.len(), 3);
    assert_eq!((expected[0].time_s, expected[0].value_bytes), (5, 9));
    assert_eq!(expected[0].key, 77_u64.to_le_bytes());
    for (name, content) in
        [("t.oracleGeneral.zst", &packed), ("t.oracleGeneral", &packed), ("t", &packed), ("t.bin", &plain)]
    {
        assert_eq!(read(name, content).unwrap(), expected, "{name}");
    }
}

#[test]
fn lines_are_read_with_commas_in_the_key_and_without_a_last_newline() {
    let text = b"3,a,b,17,249,1,get,0\r\n4,k,1,0,2,delete,60";
    for name in ["t.csv", "t"] {
        let requests = read(name, text).unwrap();
        assert_eq!((&requests[0].key[..], requests[0].key_bytes, requests[0].value_bytes), (&b"a,b"[..], 17, 249));
        assert_eq!((requests[1].operation, requests[1].ttl_s, requests[1].time_s), (Operation::Delete, 60, 4));
    }
}

#[test]
fn every_operation_of_memcached_has_its_effect() {
    let names = "get gets set add replace cas append prepend delete incr decr";
    let effects: Vec<_> = names.split(' ').map(|name| Operation::named(name.as_bytes()).unwrap().effect()).collect();
    assert_eq!(effects.iter().filter(|effect| **effect == Effect::Look).count(), 2);
    assert_eq!(effects.iter().filter(|effect| **effect == Effect::Remove).count(), 1);
    assert!(Operation::named(b"GET").is_none());
}

#[test]
fn damaged_input_is_refused_with_the_place_of_the_damage() {
    let good = record(5, 77, 9, -1);
    let cases: [(&str, Vec<u8>, &str); 10] = [
        ("t.oracleGeneral", [&good[..], &good[..11]].concat(), "record 2: cut off after 11 of 24"),
        ("t.oracleGeneral", [&good[..], &record(5, 7, 9, -2)].concat(), "record 2: its last field"),
        ("t.oracleGeneral", b"1,key,3,4,5,get,0\n1,key,3,4,5,get,0\n".to_vec(), "record 1"),
        ("t.csv", b"1,k,1,1,1,get,0\n1,k,1,1\n".to_vec(), "line 2: fewer than the 7 fields"),
        ("t.csv", b"1,k,1,1,1,get,0\n1,k,1,1,1,fetch,0\n".to_vec(), "line 2: the operation \"fetch\""),
        ("t.csv", b"1,k,1,-2,1,get,0\n".to_vec(), "line 1: the value_size is no number"),
        ("t.csv", b"99999999999999,k,1,1,1,get,0\n".to_vec(), "line 1: the timestamp"),
        ("t.csv", vec![b'x'; 1 << 19], "line 1: longer than"),
        ("t.dat", b"hello".to_vec(), "no trace that is known here"),
        ("t.csv", Vec::new(), "holds no request"),
    ];
    for (name, content, expected) in cases {
        let error = read(name, &content).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_compressed_file_that_is_cut_short_is_refused() {
    let plain: Vec<u8> =
        (0..5000).flat_map(|id| record(id, u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15), 1, -1)).collect();
    let packed = packed(&plain);
    let error = read("t.oracleGeneral.zst", &packed[..packed.len() / 2]).unwrap_err();
    assert!(error.contains("damaged or cut short"), "{error}");
}

#[test]
fn several_frames_are_read_and_what_is_to_be_skipped_is_skipped() {
    let [first, second] = [record(5, 77, 9, -1), record(6, 78, 9, -1)];
    let skipped = [&[0x53, 0x2a, 0x4d, 0x18][..], &3_u32.to_le_bytes(), b"any"].concat();
    let file = [packed(&first), skipped.clone(), packed(&second), skipped].concat();
    assert_eq!(read("t", &file).unwrap().len(), 2);
    assert!(read("t", &file[..file.len() - 1]).unwrap_err().contains("damaged or cut short"));
    assert!(read("t", &[&file[..], b"more"].concat()).unwrap_err().contains("damaged or cut short"));
}

#[test]
fn a_frame_that_was_changed_on_its_way_is_refused() {
    let plain: Vec<u8> = (0..500).flat_map(|id| record(id, u64::from(id), 1, -1)).collect();
    let good = compress_to_vec(&plain[..], CompressionLevel::Uncompressed);
    let mut changed = good.clone();
    // The key of the last record, before the checksum.
    let place = changed.len() - 4 - 20;
    changed[place] ^= 1;
    assert!(read("t", &good).is_ok());
    assert!(read("t", &changed).unwrap_err().contains("damaged or cut short"));
}

#[test]
fn a_missing_file_says_what_to_give_instead() {
    let error = Trace::open("/no/such/trace", 0).err().unwrap().to_string();
    assert!(error.contains("/no/such/trace") && error.contains("zipf:"), "{error}");
}

#[test]
fn the_published_samples_are_read_whole() {
    let Some(folder) = fixtures::traces() else { return };
    let count = |name: &str| Trace::open_file(&folder.join(name)).unwrap().map(Result::unwrap).count();
    assert_eq!(count("fixture_twitter_sample.csv.zst"), 100);
    assert_eq!(count("fixture_meta_kv.csv.zst"), 1124);
    assert_eq!(count("meta_cdn_bigcache.csv.zst"), 9999);
    assert_eq!(count("meta_cdn_bigcache.oracleGeneral.zst"), 9999);
    assert_eq!(count("msn_fs.csv.zst"), 173_563);
    assert_eq!(count("arc_p3.oracleGeneral.zst"), 3_912_296);
}
