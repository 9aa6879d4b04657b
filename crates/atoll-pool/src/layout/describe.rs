//! Describes in words what lies at an address.

use super::{CONTROL, LINE, Layout, NODES};
use crate::chunk::DESCRIPTOR_BYTES;
use crate::registry::place::{ACCOUNT_BYTES, PROTECTIONS_BYTES, SIGNAL_BYTES};
use crate::registry::protected::FirstWords;
use atoll_fabric::Address;

impl Layout {
    /// What is at an address, for a trace. A tenant describes its own words.
    pub fn describe(&self, at: Address) -> Option<String> {
        const CONTROLS: [&str; 10] = [
            "clock",
            "free chunks",
            "resident objects",
            "members ever",
            "tokens",
            "deaths",
            "deaths counted",
            "closing",
            "clock offset",
            "provided",
        ];
        let offset = at.offset();
        let within = |start: u64, end: u64, first: u64, bytes: u64, name: &str, words: &[&str]| {
            (start..end).contains(&offset).then(|| {
                let (index, word) = (first + (offset - start) / bytes, (offset - start) % bytes / 8);
                let word = words.get(word as usize).map_or_else(|| format!("+{}", 8 * word), |word| (*word).to_owned());
                format!("{name} {index} {word}")
            })
        };
        if !at.is_home() {
            let (node, chunks) = (at.node(), self.chunks_of(at.node())?);
            let (start, end) = (self.member_heap(node), self.member_end(node, chunks.len() as u32));
            return within(start, end, chunks.start.into(), self.chunk_bytes, "in chunk", &[]);
        }
        if offset < CONTROL {
            return Some(format!("header word {}", offset / 8));
        }
        if offset < NODES {
            return CONTROLS.get(((offset - CONTROL) / LINE) as usize).map(|name| (*name).to_owned());
        }
        let descriptor = &["state", "contents", "dead bytes", "expired"];
        let places = self.place(0).offset();
        within(NODES, places, 0, 8, "node", &["state"])
            .or_else(|| within(places, self.sharers, 0, 8, "node", &["place"]))
            .or_else(|| within(self.sharers, self.sharers + LINE, 0, LINE, "sharers", &["version"]))
            .or_else(|| within(self.sharers + LINE, self.reuses, 0, 8, "sharer", &["word"]))
            .or_else(|| within(self.reuses, self.registry, 0, 8, "reuses", &["count"]))
            .or_else(|| {
                let words = &["state", "near protection", "lease", "protections"];
                within(self.registry, self.firsts, 0, SIGNAL_BYTES, "signal", words)
            })
            .or_else(|| {
                within(self.firsts, self.accounts, 0, FirstWords::BLOCK_BYTES, "first protections", &["notices"])
            })
            .or_else(|| within(self.accounts, self.protections, 0, ACCOUNT_BYTES, "account", &[]))
            .or_else(|| within(self.protections, self.table, 0, PROTECTIONS_BYTES, "protections", &[]))
            .or_else(|| within(self.table, self.engine, 0, DESCRIPTOR_BYTES, "chunk", descriptor))
            .or_else(|| within(self.heap, self.end(), 0, self.chunk_bytes, "in chunk", &[]))
    }
}
