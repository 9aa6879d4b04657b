//! What the server's log says of its pool: what has changed since the last look, once a second.
//!
//! | event | level |
//! |---|---|
//! | memory nodes have ended, or do not answer | error |
//! | all memory nodes are there again | info |
//! | this server has shut dead clients out, and has reclaimed what they held | warn |

use atoll_cache::Stats;
use atoll_fabric::Pace;

/// The last look.
#[derive(Debug, Default)]
pub(super) struct Watch {
    nodes_absent: u64,
    clients_fenced: u64,
    chunks_repaired: u64,
}

impl Watch {
    /// Tells how many memory nodes are absent, if that has changed.
    pub(super) fn tell_nodes(&mut self, nodes_absent: u64) {
        match std::mem::replace(&mut self.nodes_absent, nodes_absent) {
            before if before == nodes_absent => {}
            _ if nodes_absent == 0 => tracing::info!("all memory nodes of the pool are there again"),
            _ => tracing::error!(
                "{nodes_absent} memory node(s) have ended or do not answer: their keys miss, or commands wait or fail; where one has ended, start `atoll node`"
            ),
        }
    }

    /// Tells what this worker's client has repaired. A client that joined in the place of another
    /// counts from 0.
    pub(super) fn tell_repairs(&mut self, stats: &Stats) {
        // Counts that go back are those of another client.
        if stats.clients_fenced < self.clients_fenced || stats.chunks_repaired < self.chunks_repaired {
            (self.clients_fenced, self.chunks_repaired) = (0, 0);
        }
        let clients = stats.clients_fenced - self.clients_fenced;
        let chunks = stats.chunks_repaired - self.chunks_repaired;
        static REPAIRS: Pace = Pace::new();
        if (clients > 0 || chunks > 0)
            && let Some(more) = REPAIRS.line()
        {
            (self.clients_fenced, self.chunks_repaired) = (stats.clients_fenced, stats.chunks_repaired);
            tracing::warn!("{clients} dead client(s) of the pool shut out, {chunks} chunk(s) of such reclaimed{more}");
        }
    }
}
