//! The configuration of the server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// TLS of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The file of its certificate, with those that link it to its authority (PEM).
    pub certificate: PathBuf,
    /// The file of the certificate's key (PEM).
    pub key: PathBuf,
    /// The file of the authority (PEM) whose certificates peers must show; without one, peers show
    /// none.
    pub clients: Option<PathBuf>,
    /// The TCP port to listen on within TLS, in addition. 0 chooses a free one, which
    /// [`Server::tls_address`](crate::Server::tls_address) returns.
    pub port: Option<u16>,
    /// Whether connections to [`ServerOptions::second`] are within TLS.
    pub at_second: bool,
}

/// The configuration of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// The address to listen on.
    pub address: IpAddr,
    /// The TCP port to listen on. 0 chooses a free one, which
    /// [`Server::address`](crate::Server::address) returns. Without one the server listens on its
    /// other addresses only.
    pub port: Option<u16>,
    /// The Unix socket to listen on, in addition.
    pub unix: Option<PathBuf>,
    /// A second TCP address to listen on: [`Both`](crate::serve::Both) serves another protocol
    /// there.
    pub second: Option<SocketAddr>,
    /// The Unix socket to listen on for the protocol of that address, in addition.
    pub second_unix: Option<PathBuf>,
    /// TLS, and where it is spoken.
    pub tls: Option<TlsOptions>,
    /// Threads that serve connections, each with its own client of the cache; at least 1.
    pub threads: usize,
    /// Where Prometheus reads the metrics over HTTP.
    pub metrics: Option<SocketAddr>,
    /// The most connections served at a time. A further peer gets an error, and its connection is
    /// closed.
    pub clients_max: usize,
    /// Seconds after which a peer that says nothing is disconnected; 0 for never.
    pub idle_s_max: u32,
    /// Seconds after which the system asks whether a silent peer is there; 0 for never.
    pub keepalive_s: u32,
    /// Whether SIGTERM and SIGINT stop the server. An embedding process that handles them itself
    /// sets `false`.
    pub stop_on_signals: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: Some(6379),
            unix: None,
            second: None,
            second_unix: None,
            tls: None,
            threads: 1,
            metrics: None,
            clients_max: 10_000,
            idle_s_max: 0,
            keepalive_s: 300,
            stop_on_signals: true,
        }
    }
}
