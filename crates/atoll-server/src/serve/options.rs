//! The configuration of the server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// How a server is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// The address to listen on.
    pub address: IpAddr,
    /// The TCP port to listen on. 0 takes a free one ([`Server::address`](crate::Server::address)
    /// says which).
    pub port: u16,
    /// The Unix socket to listen on beside it.
    pub unix: Option<PathBuf>,
    /// Threads that serve connections, each with its own client of the cache; at least 1.
    pub threads: usize,
    /// Where Prometheus reads the metrics over HTTP.
    pub metrics: Option<SocketAddr>,
    /// Connections served at a time; a further one is told so and closed.
    pub clients_max: usize,
    /// Whether SIGTERM and SIGINT stop the server. An embedding process that handles them itself
    /// says no.
    pub stop_on_signals: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 6379,
            unix: None,
            threads: 1,
            metrics: None,
            clients_max: 10_000,
            stop_on_signals: true,
        }
    }
}
