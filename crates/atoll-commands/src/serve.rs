//! `atoll serve`: a cache for Redis and memcached clients, over an embedded pool or a named one.

use crate::address::{parse_host, parse_socket};
use crate::logs::LogArgs;
use crate::new_pool::NewPoolArgs;
use crate::settings::{SettingsArgs, Settled};
use crate::{open_pool, password_of};
use atoll::Pool;
use atoll::fabric::{OnFabric, ServedFabric, on_fabric};
use atoll::size::parse_bytes;
use atoll_server::serve::Both;
use atoll_server::{Memcached, NearFacts, PoolFacts, Redis, RedisOptions, Server, ServerOptions, TlsOptions};
use clap::Args;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Options of `atoll serve`.
#[derive(Args, Debug)]
pub struct ServeCommand {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", value_parser = parse_host)]
    address: IpAddr,
    /// TCP port to listen on for Redis clients, or `none`
    #[arg(long, value_name = "PORT|none", default_value = "6379", value_parser = port)]
    port: Port,
    /// Unix socket to listen on for Redis clients, in addition
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Address to listen on for memcached clients, which see the keys of Redis' database 0. It has
    /// no password
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_socket)]
    memcached: Option<SocketAddr>,
    /// Unix socket to listen on for memcached clients
    #[arg(long, value_name = "PATH")]
    memcached_unix: Option<PathBuf>,
    /// TCP port to listen on for Redis clients within TLS, in addition
    #[arg(long, value_name = "PORT", requires = "tls_cert")]
    tls_port: Option<u16>,
    /// File of the server's certificate, with those that link it to its authority (PEM). It may
    /// change while the server runs
    #[arg(long, value_name = "PATH", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// File of the certificate's key (PEM)
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// File of an authority (PEM): clients must show a certificate of it
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Speak TLS with memcached clients
    #[arg(long, requires_all = ["memcached", "tls_cert"])]
    memcached_tls: bool,
    /// An existing pool to serve, instead of one of the server's own (shm:/NAME, the path of a
    /// file, or tcp:HOST:PORT[,HOST:PORT...])
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    #[command(flatten)]
    own: NewPoolArgs,
    /// Threads that serve connections
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Connections served at most
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    maxclients: u32,
    /// Whether a thread evicts ahead of need, if a processor is free: the slowest SETs of a full
    /// pool in shared memory take less than half of the time
    #[arg(long, value_name = "yes|no", default_value = "no", value_parser = yes_or_no, action = clap::ArgAction::Set)]
    evict_ahead: bool,
    /// Memory of this host for copies of what clients read often, which are never older than the
    /// pool: for one on another host. Servers of one size share it [default: none]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    near: Option<u64>,
    /// Seconds after which a client that says nothing is disconnected; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    timeout: u32,
    /// Seconds after which the system asks whether a silent client is there; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    tcp_keepalive: u32,
    /// File that holds the password which Redis clients must give; its end of line does not count
    #[arg(long, value_name = "PATH")]
    password_file: Option<PathBuf>,
    /// File with the users of the server, which ACL LOAD reads and ACL SAVE writes
    #[arg(long, value_name = "PATH", conflicts_with = "password_file")]
    aclfile: Option<PathBuf>,
    /// A user with its rules, as in an ACL file: 'ana on #HASH ~* +@read'; may be given often
    #[arg(long, value_name = "RULES", conflicts_with = "aclfile")]
    user: Vec<String>,
    /// Whether a server without a password serves its own host only
    #[arg(long, value_name = "yes|no", default_value = "yes", value_parser = yes_or_no, action = clap::ArgAction::Set)]
    protected_mode: bool,
    /// Address where Prometheus reads the metrics over HTTP
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_socket)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    logs: LogArgs,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// What the near cache has.
fn near_facts<F: ServedFabric>(pool: &Pool<F>, bytes: u64) -> Option<NearFacts> {
    let cache = pool.near_cache().ok().flatten()?;
    Some(NearFacts { copies: cache.copies(), used_bytes: cache.bytes(), bytes, is_shared: cache.is_of_host() })
}

/// A port, or none.
#[derive(Clone, Copy, Debug)]
struct Port(Option<u16>);

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(port) => port.fmt(f),
            None => "none".fmt(f),
        }
    }
}

fn port(text: &str) -> Result<Port, String> {
    match text {
        "none" => Ok(Port(None)),
        _ => text.parse().map(|port| Port(Some(port))).map_err(|_| "say a number up to 65535, or none".to_owned()),
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("say yes or no".to_owned()),
    }
}

/// Serves a pool that exists.
struct ServePool<'c> {
    command: &'c ServeCommand,
    server: Server,
    redis: Redis,
}

impl OnFabric for ServePool<'_> {
    type Output = Result<(), Box<dyn Error>>;

    fn run<F: ServedFabric>(self, fabric: F) -> Self::Output {
        self.command.serve(self.server, self.redis, open_pool(&fabric)?)
    }
}

impl ServeCommand {
    /// Does it, and prints what comes of it.
    pub fn run(self, settled: &Settled<'_>) -> Result<(), Box<dyn Error>> {
        self.logs.begin();
        let engine = self.own.engine.options()?;
        if let (Some(name), Some(given)) = (&self.pool, self.own.given()) {
            let why = format!("{given} is for a pool of the server's own, and {name} is as it was created");
            return Err(format!("{why}: leave it out (`atoll pool info {name}` shows its settings)").into());
        }
        if self.settings.config {
            let defaults = self.own.defaults(&engine);
            settled.print(if self.pool.is_some() { &[] } else { &defaults });
            return Ok(());
        }
        self.check_addresses()?;
        let options = ServerOptions {
            address: self.address,
            port: self.port.0,
            unix: self.unix.clone(),
            second: self.memcached,
            second_unix: self.memcached_unix.clone(),
            tls: self.tls(),
            threads: self.threads.into(),
            metrics: self.metrics,
            clients_max: self.maxclients as usize,
            idle_s_max: self.timeout,
            keepalive_s: self.tcp_keepalive,
            ..ServerOptions::default()
        };
        let mut redis = Redis::new(RedisOptions { password: self.password()?, is_open: !self.protected_mode });
        if let Some(path) = &self.aclfile {
            redis = redis.with_acl_file(path.clone())?;
        }
        for user in &self.user {
            redis = redis.with_users(&format!("user {user}"), "--user")?;
        }
        // The port is bound first: a port in use is reported before any memory is allocated.
        let server = Server::bind(options)?;
        match &self.pool {
            Some(name) => on_fabric(name, ServePool { command: &self, server, redis })?,
            None => {
                let options = self.own.options(engine, self.own.capacity_bytes(None), 1);
                self.serve(server, redis, Pool::anonymous(&options)?)
            }
        }
    }

    fn tls(&self) -> Option<TlsOptions> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        let clients = self.tls_client_ca.clone();
        Some(TlsOptions { certificate, key, clients, port: self.tls_port, at_second: self.memcached_tls })
    }

    fn check_addresses(&self) -> Result<(), String> {
        let is_second = self.memcached.is_some() || self.memcached_unix.is_some();
        if self.port.0.or(self.tls_port).is_none() && self.unix.is_none() && !is_second {
            let why = "nothing is served: give --port or --tls-port, or add --unix, --memcached or --memcached-unix";
            return Err(why.to_owned());
        }
        if self.tls_cert.is_some() && self.tls_port.is_none() && !self.memcached_tls {
            return Err("nobody is shown the certificate: add --tls-port or --memcached-tls".to_owned());
        }
        let is_certified = self.memcached_tls && self.tls_client_ca.is_some();
        match self.memcached {
            Some(address) if self.protected_mode && !is_certified && !address.ip().to_canonical().is_loopback() => {
                Err(format!(
                    "memcached at {address} has no password: listen on a loopback address, demand certificates \
                     (--memcached-tls with --tls-client-ca), or say --protected-mode no where everybody in the \
                     network may read and change the cache"
                ))
            }
            _ => Ok(()),
        }
    }

    /// What it serves, and where.
    fn shown(&self, server: &Server) -> std::io::Result<String> {
        let tcp = server.address().transpose()?.map(|address| address.to_string());
        let unix = self.unix.as_ref().map(|path| path.display().to_string());
        let memcached = server.second_address().transpose()?.map(|address| format!("memcached at {address}"));
        let within_tls = server.tls_address().transpose()?.map(|address| format!("{address} within TLS"));
        let memcached = memcached.map(|shown| if self.memcached_tls { shown + " within TLS" } else { shown });
        let by_socket = self.memcached_unix.as_ref().map(|path| format!("memcached at {}", path.display()));
        Ok([tcp, within_tls, unix, memcached, by_socket].into_iter().flatten().collect::<Vec<_>>().join(" and "))
    }

    fn serve<F: ServedFabric>(&self, server: Server, redis: Redis, pool: Pool<F>) -> Result<(), Box<dyn Error>> {
        let [used, capacity, provided, clock, nodes, near, joined] = std::array::from_fn(|_| pool.clone());
        let near_bytes = self.near.unwrap_or(0);
        let facts = PoolFacts {
            fabric: pool.fabric().to_owned(),
            engine: pool.engine().to_string(),
            experts: pool.experts().map(|experts| experts.to_string()),
            capacity_bytes: Box::new(move || capacity.capacity_bytes()),
            provided_bytes: Box::new(move || provided.provided_bytes()),
            used_bytes: Box::new(move || used.used_bytes()),
            wall_clock_ahead_ms: Box::new(move || clock.wall_clock_ahead_ms()),
            nodes_absent: Box::new(move || nodes.nodes_absent()),
            try_join: Box::new(move || {
                joined.client().map(|client| drop(client.leave())).map_err(|error| error.to_string())
            }),
            near: Box::new(move || near_facts(&near, near_bytes)),
        };
        if let Some(bytes) = self.near {
            pool.near(bytes)?;
        }
        let metrics = server.metrics_address().transpose()?;
        pool.evict_ahead(self.evict_ahead);
        let ready = format!(
            "atoll {} serves {} on fabric {}: pool {}, engine {}, {} bytes, {} thread(s){}{}",
            env!("CARGO_PKG_VERSION"),
            self.shown(&server)?,
            pool.fabric(),
            pool.name().unwrap_or("of its own"),
            pool.engine(),
            pool.capacity_bytes(),
            self.threads,
            self.near.map(|bytes| format!(", near cache of {bytes} bytes")).unwrap_or_default(),
            metrics.map(|address| format!(", metrics at http://{address}/metrics")).unwrap_or_default(),
        );
        let memcached = Memcached::new(&redis);
        // The pool is closed after its last client has left.
        let both = Both::new(redis, memcached);
        let client = |_| pool.client().map(atoll::Client::into_served);
        Ok(server.run_telling(both, facts, client, || println!("{ready}"))?)
    }

    fn password(&self) -> Result<Option<Vec<u8>>, String> {
        self.password_file.as_deref().map(password_of).transpose()
    }
}
