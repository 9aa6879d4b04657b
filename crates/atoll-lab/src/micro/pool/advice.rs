//! What the figures of a pool mean for its user.

use super::bare::Bare;

/// What was found beside the latencies, a number a round.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) is_near: bool,
    /// The share of the time that the client's thread had a core, with most GETs in flight.
    pub(super) core_share: Vec<f64>,
    /// The share of the time that all cores of this host were busy, with two connections.
    pub(super) host_share: Vec<f64>,
    /// GETs a second of one connection, and of two, with most in flight.
    pub(super) one_connection: Vec<f64>,
    pub(super) two_connections: Vec<f64>,
    /// What large READs carry over one connection.
    pub(super) large_bytes_per_s: Vec<f64>,
}

/// The median; 0 of nothing.
pub(super) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// From this share on a core is full.
const FULL: f64 = 0.9;
/// A second connection that adds so much helps.
const HELPS: f64 = 1.3;
/// From this share of what the buffers permit on they are the limit.
const BUFFERED: f64 = 0.6;

/// What follows, a sentence each. `get_us` are the medians of a GET with one and with most in
/// flight, `gets_per_s` likewise. `buffer_bytes_max` is the most that the kernel gives a socket.
pub(super) fn advice(found: &Found, bare: &Bare, gets_per_s: [f64; 2], buffer_bytes_max: Option<u64>) -> Vec<String> {
    let mut advice = Vec::new();
    if found.is_near {
        return advice;
    }
    let [one_at_a_time, many] = gets_per_s;
    if many > 2.0 * one_at_a_time {
        advice.push(format!(
            "keep many operations in flight: one at a time gives {one_at_a_time:.0} GETs a second, many at a time {many:.0}"
        ));
    }
    let (one, two) = (median(&found.one_connection), median(&found.two_connections));
    let core = median(&found.core_share);
    let is_full = core >= FULL;
    if one > 0.0 && two >= HELPS * one {
        let why = if is_full { ": one thread fills its core" } else { "" };
        advice.push(format!(
            "use more connections, that is, more client threads: one gives {one:.0} GETs a second, two give {two:.0}{why}"
        ));
    } else if median(&found.host_share) >= FULL {
        advice.push(format!(
            "the cores of this host are full ({:.0} %), with those of the memory node if it runs here: measure from another host, or use more cores",
            100.0 * median(&found.host_share)
        ));
    } else if is_full {
        advice.push(format!(
            "the client's thread fills its core ({:.0} %), and a second thread adds little: this host has no core left for it, or the memory node is full",
            100.0 * core
        ));
    } else {
        advice.push(
            "neither more connections nor this host's cores limit the GETs: the memory node or the network does; try more threads there (atoll node --threads)"
                .to_owned(),
        );
    }
    let handshake_s = bare.handshakes.iter().map(|(_, us)| us / 1e6).fold(0.0, f64::max);
    if let Some(bytes) = buffer_bytes_max
        && handshake_s > 0.0
    {
        let (most, carried) = (bytes as f64 / handshake_s, median(&found.large_bytes_per_s));
        if carried >= BUFFERED * most {
            advice.push(format!(
                "the sockets' buffers are small for this round trip: {bytes} bytes (net.ipv4.tcp_rmem and tcp_wmem) carry at most {:.0} MB/s, and {:.0} are reached",
                most / 1e6,
                carried / 1e6
            ));
        }
    }
    advice
}

/// How much the cores of this host have worked since it was started, and how long they were there.
pub(super) fn host_work() -> Option<[f64; 2]> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<f64> =
        text.lines().next()?.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guests count among the first two.
    let [user, nice, system, idle, iowait, irq, softirq, steal] = *ticks.first_chunk::<8>()?;
    let work = user + nice + system + irq + softirq + steal;
    Some([work, work + idle + iowait])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(core: f64, two: f64, large: f64) -> Found {
        Found {
            is_near: false,
            core_share: vec![core],
            host_share: vec![0.5],
            one_connection: vec![100_000.0],
            two_connections: vec![two],
            large_bytes_per_s: vec![large],
        }
    }

    #[test]
    fn each_limit_gets_its_advice_and_no_other() {
        let bare = Bare { handshakes: vec![("a:1".to_owned(), 1000.0)], ..Bare::default() };
        let advise = |found: &Found| advice(found, &bare, [1000.0, 1500.0], Some(4 << 20)).join("\n");
        let connections = advise(&found(0.95, 190_000.0, 1e6));
        assert!(connections.contains("more connections") && connections.contains("fills its core"), "{connections}");
        assert!(!connections.contains("buffers"), "{connections}");
        let core = advise(&found(0.95, 110_000.0, 1e6));
        assert!(core.contains("fills its core (95 %)") && !core.contains("use more connections"), "{core}");
        let node = advise(&found(0.4, 105_000.0, 1e6));
        assert!(node.contains("--threads"), "{node}");
        let host = advise(&Found { host_share: vec![0.97], ..found(0.4, 105_000.0, 1e6) });
        assert!(host.contains("full (97 %)") && !host.contains("--threads"), "{host}");
        // 4 MiB in a millisecond.
        let buffers = advise(&found(0.4, 105_000.0, 3.5e9));
        assert!(buffers.contains("buffers are small"), "{buffers}");
        assert_eq!(advice(&Found { is_near: true, ..Found::default() }, &bare, [1.0, 9.0], None), Vec::<String>::new());
    }
}
