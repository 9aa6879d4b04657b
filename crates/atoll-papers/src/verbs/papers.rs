//! What the papers say of single operations, and how far ours may be from it.
//!
//! Only what a paper's text counts or lists is here. Ours differ where the papers have holes that
//! our engines close: [`Paper::why`] says which.

use serde::Serialize;

/// What a paper says of an operation.
#[derive(Debug, Serialize)]
pub struct Paper {
    /// The engine that is the paper's.
    pub engine: &'static str,
    /// The operation.
    pub op: &'static str,
    /// Times that a client waits for the network.
    pub round_trips: f64,
    /// Verbs, those that tell the pool of accesses included.
    pub verbs: f64,
    /// Where the paper says it.
    pub source: &'static str,
    /// By how many round trips ours may be beside it.
    pub round_trips_beside: f64,
    /// By how many verbs ours may be beside it.
    pub verbs_beside: f64,
    /// Why ours may be beside it; empty where it may not.
    pub why: &'static str,
}

const fn exactly(engine: &'static str, op: &'static str, round_trips: f64, verbs: f64, source: &'static str) -> Paper {
    Paper { engine, op, round_trips, verbs, source, round_trips_beside: 0.05, verbs_beside: 0.25, why: "" }
}

const fn beside(paper: Paper, round_trips_beside: f64, verbs_beside: f64, why: &'static str) -> Paper {
    Paper { round_trips_beside, verbs_beside, why, ..paper }
}

const FORGE_4_2: &str = "FORGE, section 4.2, Fig. 7";
const FORGE_5_2: &str = "FORGE, section 5.2";
const FORGE_6_1: &str = "FORGE, section 6.1: as FORGE";
const DITTO_4_2: &str = "Ditto, sections 4.1 and 4.2";
const DITTO_5_3: &str = "Ditto, section 5.3";
const PROTECTS: &str = "a change protects the old record's chunk by a WRITE, and READs the slot again behind it";
const DUPLICATES: &str = "an insertion claims its slot first and READs the bucket again, so that no key is there twice";

/// All of them.
pub(super) const ALL: [Paper; 17] = [
    exactly("forge-paper", "GET hit", 2.0, 2.0, FORGE_4_2),
    exactly("forge-paper", "GET miss", 1.0, 1.0, FORGE_4_2),
    beside(exactly("forge-paper", "SET update", 3.0, 5.0, FORGE_4_2), 0.05, 3.25, PROTECTS),
    beside(exactly("forge-paper", "SET insert", 2.0, 4.0, FORGE_5_2), 1.05, 3.25, DUPLICATES),
    exactly("glcache-dm", "GET hit", 2.0, 2.0, FORGE_6_1),
    exactly("glcache-dm", "GET miss", 1.0, 1.0, FORGE_6_1),
    beside(exactly("glcache-dm", "SET update", 3.0, 5.0, FORGE_6_1), 0.05, 3.25, PROTECTS),
    beside(exactly("glcache-dm", "SET insert", 2.0, 4.0, FORGE_6_1), 1.05, 3.25, DUPLICATES),
    beside(
        exactly("ditto-paper", "GET hit", 2.0, 4.1, DITTO_4_2),
        0.05,
        1.25,
        "clients know the history counter from their own evictions and do not READ it with every lookup",
    ),
    exactly("ditto-paper", "GET miss", 1.0, 1.0, DITTO_4_2),
    beside(exactly("ditto-paper", "SET update", 3.0, 6.1, DITTO_4_2), 0.05, 3.25, PROTECTS),
    beside(exactly("ditto-paper", "SET insert", 3.0, 5.1, DITTO_4_2), 1.05, 4.25, DUPLICATES),
    beside(
        exactly("ditto-paper", "eviction, per object", 2.0, 4.0, DITTO_4_2),
        0.5,
        3.5,
        "an evictor names the block in its own cell before it takes it, so that a repairer finds it",
    ),
    exactly("cliquemap-lru", "SET update", 1.0, 0.0, DITTO_5_3),
    exactly("cliquemap-lru", "SET insert", 1.0, 0.0, DITTO_5_3),
    exactly("cliquemap-lfu", "SET update", 1.0, 0.0, DITTO_5_3),
    exactly("cliquemap-lfu", "SET insert", 1.0, 0.0, DITTO_5_3),
];
