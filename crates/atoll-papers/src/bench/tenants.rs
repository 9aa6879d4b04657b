//! Loads made of others: objects of one size, several tenants with the same requests for keys of
//! their own, two applications, and the beginning of a load.

use super::footprint::Footprint;
use super::sizes::{cache_bytes_min, grouped_cache_bytes_min};
use atoll_lab::load::{Load, Request, Stream, share};
use std::sync::Arc;

/// A load whose objects all have the same bytes of key and value.
pub struct OneSize {
    /// The load.
    pub load: Arc<dyn Load>,
    /// Key and value together.
    pub object_bytes: u32,
}

impl Load for OneSize {
    fn what(&self) -> String {
        format!("{}, objects of {} bytes", self.load.what(), self.object_bytes)
    }

    fn requests(&self) -> u64 {
        self.load.requests()
    }

    fn keys_loaded(&self) -> u64 {
        self.load.keys_loaded()
    }

    fn preload(&self, client: u64, clients: u64) -> Stream {
        one_size(self.load.preload(client, clients), self.object_bytes)
    }

    fn stream(&self, client: u64, clients: u64) -> Stream {
        one_size(self.load.stream(client, clients), self.object_bytes)
    }
}

fn one_size(stream: Stream, object_bytes: u32) -> Stream {
    Box::new(stream.map(move |request| Request {
        key_bytes: atoll_lab::load::KEY_BYTES,
        value_bytes: object_bytes.saturating_sub(atoll_lab::load::KEY_BYTES),
        ..request
    }))
}

/// So many tenants of one cache. Each makes all requests of the load, for keys of its own.
///
/// A trace of few keys becomes a load for many threads. Its hit ratios stay the same at the same
/// shares of its footprint. Clients are assigned to the tenants in turn.
pub struct Tenants {
    /// The load of each.
    pub load: Arc<dyn Load>,
    /// How many.
    pub tenants: u64,
}

impl Tenants {
    fn keys_of(&self, tenant: u64, stream: Stream) -> Stream {
        // Multiplying by an odd number and adding are injective. Keys of two tenants are equal as
        // rarely as random ones.
        let step = (2 * tenant + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & !1;
        match tenant {
            0 => stream,
            _ => {
                Box::new(stream.map(move |request| Request {
                    key: request.key.wrapping_mul(step | 1).wrapping_add(step),
                    ..request
                }))
            }
        }
    }
}

impl Load for Tenants {
    fn what(&self) -> String {
        format!("{} tenants of {}", self.tenants, self.load.what())
    }

    fn requests(&self) -> u64 {
        self.tenants * self.load.requests()
    }

    fn preload(&self, _client: u64, _clients: u64) -> Stream {
        Box::new(std::iter::empty())
    }

    fn stream(&self, client: u64, clients: u64) -> Stream {
        assert!(client < clients, "client {client} of {clients}");
        if clients < self.tenants {
            // There are fewer clients than tenants: each client makes the requests of several.
            let mut all: Stream = Box::new(std::iter::empty());
            for tenant in (client..self.tenants).step_by(clients as usize) {
                all = Box::new(all.chain(self.keys_of(tenant, self.load.stream(0, 1))));
            }
            return all;
        }
        let tenant = client % self.tenants;
        let mates = (clients - tenant).div_ceil(self.tenants);
        self.keys_of(tenant, self.load.stream(client / self.tenants, mates))
    }
}

/// Two applications of one cache. Some clients belong to the first, the others to the second. Their
/// keys must differ.
pub struct Applications {
    /// The loads of both. Neither makes more requests than it has.
    pub loads: [Arc<dyn Load>; 2],
    /// Percent of the clients that belong to the first.
    pub first_percent: u64,
}

impl Load for Applications {
    fn what(&self) -> String {
        let [first, second] = &self.loads;
        format!("{} % of the clients: {}; the others: {}", self.first_percent, first.what(), second.what())
    }

    fn requests(&self) -> u64 {
        self.loads[0].requests().min(self.loads[1].requests())
    }

    fn preload(&self, _client: u64, _clients: u64) -> Stream {
        Box::new(std::iter::empty())
    }

    fn stream(&self, client: u64, clients: u64) -> Stream {
        let firsts = (clients * self.first_percent + 50) / 100;
        // A client's share of all clients. Among fewer clients its share would be larger.
        let requests = share(self.requests(), client, clients) as usize;
        let [first, second] = &self.loads;
        match client < firsts {
            true => Box::new(first.stream(client, firsts).take(requests)),
            false => Box::new(second.stream(client - firsts, clients - firsts).take(requests)),
        }
    }
}

/// The beginning of a load: each client makes the first of so many parts of its requests.
pub struct FirstPart {
    /// The load.
    pub load: Arc<dyn Load>,
    /// How many parts it has.
    pub parts: u64,
}

impl Load for FirstPart {
    fn what(&self) -> String {
        format!("the first of {} parts of {}", self.parts, self.load.what())
    }

    fn requests(&self) -> u64 {
        self.load.requests() / self.parts
    }

    fn keys_loaded(&self) -> u64 {
        self.load.keys_loaded()
    }

    fn preload(&self, client: u64, clients: u64) -> Stream {
        self.load.preload(client, clients)
    }

    fn stream(&self, client: u64, clients: u64) -> Stream {
        Box::new(self.load.stream(client, clients).take(share(self.requests(), client, clients) as usize))
    }
}

/// The load for as many tenants as needed: a cache of `percent` then has room for what so many
/// threads hold open.
pub(crate) fn populated(load: Arc<dyn Load>, threads: u16, percent: u64) -> Arc<dyn Load> {
    tenants(load, percent, |object_bytes| cache_bytes_min(object_bytes, threads))
}

/// The same, and groups of such a cache are full ones.
pub(crate) fn grouped(load: Arc<dyn Load>, threads: u16, percent: u64) -> Arc<dyn Load> {
    tenants(load, percent, |object_bytes| grouped_cache_bytes_min(object_bytes, threads))
}

/// The load for as many tenants as give a cache of `percent` the bytes that objects of one size
/// need at least.
fn tenants(load: Arc<dyn Load>, percent: u64, least: impl Fn(u32) -> u64) -> Arc<dyn Load> {
    let footprint = Footprint::of(&*load);
    let bytes = least(footprint.object_bytes()) * 100 / percent;
    let tenants = bytes.div_ceil(footprint.bytes.max(1));
    if tenants < 2 { load } else { Arc::new(Tenants { load, tenants }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_lab::load::LoadOptions;
    use std::collections::BTreeSet;

    #[test]
    fn two_applications_have_their_parts_of_the_clients_and_all_requests_are_made() {
        let load = |name| -> Arc<dyn Load> { LoadOptions::named(name).open().unwrap().into() };
        let loads = [load("zipf:100,1,1001"), load("zipf:200,1,1001")];
        for (first_percent, firsts) in [(0, 0), (50, 4), (70, 5), (100, 7)] {
            let both = Applications { loads: loads.clone(), first_percent };
            let streams: Vec<Vec<Request>> = (0..7).map(|client| both.stream(client, 7).collect()).collect();
            assert_eq!(streams.iter().map(Vec::len).sum::<usize>() as u64, both.requests());
            let of_first = |(client, stream): &(usize, &Vec<Request>)| {
                let alone = loads[0].stream(*client as u64, firsts.max(*client as u64 + 1));
                alone.take(stream.len()).eq(stream.iter().copied())
            };
            let count = streams.iter().enumerate().take(firsts as usize).filter(of_first).count();
            assert_eq!(count as u64, firsts, "{first_percent} %");
        }
    }

    #[test]
    fn the_first_part_of_a_load_is_the_beginning_of_each_client() {
        let load: Arc<dyn Load> = LoadOptions::named("zipf:100,1,1001").open().unwrap().into();
        let part = FirstPart { load: load.clone(), parts: 3 };
        for clients in [1, 2, 7] {
            let streams: Vec<Vec<Request>> =
                (0..clients).map(|client| part.stream(client, clients).collect()).collect();
            assert_eq!(streams.iter().map(Vec::len).sum::<usize>() as u64, part.requests());
            let is_beginning = |(client, stream): (u64, &Vec<Request>)| {
                load.stream(client, clients).take(stream.len()).eq(stream.iter().copied())
            };
            assert!((0..).zip(&streams).all(is_beginning), "{clients} clients");
        }
    }

    #[test]
    fn tenants_share_no_key_and_lose_no_request() {
        let load: Arc<dyn Load> = LoadOptions::named("zipf:100,1,1001").open().unwrap().into();
        let tenants = Tenants { load, tenants: 3 };
        for clients in [1, 2, 3, 7] {
            let requests: Vec<Request> = (0..clients).flat_map(|client| tenants.stream(client, clients)).collect();
            assert_eq!(requests.len() as u64, tenants.requests());
            let keys: BTreeSet<u64> = requests.iter().map(|request| request.key).collect();
            let alone: BTreeSet<u64> = tenants.load.stream(0, 1).map(|request| request.key).collect();
            assert_eq!(keys.len(), 3 * alone.len());
        }
    }
}
