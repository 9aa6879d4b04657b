//! TLS: both protocols within it, certificates that change, clients that must show one.

use crate::common::{Raw, Running, command, options, start};
use atoll_server::{ServerOptions, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A folder with a server's certificate, removed at the end.
struct Files(PathBuf);

impl Files {
    fn new(test: &str) -> (Self, CertificateDer<'static>) {
        let folder = std::env::temp_dir().join(format!("atoll-server-tls-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let files = Self(folder);
        let certificate = files.renew();
        (files, certificate)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes another certificate and its key.
    fn renew(&self) -> CertificateDer<'static> {
        let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(self.path("cert.pem"), signed.cert.pem()).unwrap();
        std::fs::write(self.path("key.pem"), signed.signing_key.serialize_pem()).unwrap();
        signed.cert.der().clone()
    }

    fn options(&self) -> TlsOptions {
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| self.path(name));
        TlsOptions { certificate, key, clients: None, port: Some(0), at_second: false }
    }

    fn start(&self) -> Running {
        start(ServerOptions { tls: Some(self.options()), ..options() })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Shown = Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>;

/// A client that trusts `server`, and shows a certificate of its own.
struct Tls(StreamOwned<ClientConnection, TcpStream>);

impl Tls {
    fn connect(address: SocketAddr, server: &CertificateDer<'static>, shown: Shown) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(server.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match shown {
            Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).unwrap(),
            None => builder.with_no_client_auth(),
        };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream))
    }

    /// Sends bytes, and gives as many as the reply is to have.
    fn ask(&mut self, bytes: &[u8], reply: &[u8]) -> io::Result<bool> {
        self.0.write_all(bytes)?;
        let mut read = vec![0; reply.len()];
        self.0.read_exact(&mut read)?;
        Ok(read == reply)
    }

    fn ping(&mut self) -> io::Result<bool> {
        self.ask(b"PING\r\n", b"+PONG\r\n")
    }
}

#[test]
fn commands_of_any_size_work_within_tls_and_the_end_is_told() {
    let (files, certificate) = Files::new("commands");
    let server = files.start();
    let mut within = Tls::connect(server.tls(), &certificate, None);
    assert!(within.ping().unwrap());
    let value: Vec<u8> = (0..5 << 20).map(|byte| (byte % 251) as u8).collect();
    assert!(within.ask(&command(&[b"SET", b"k".as_slice(), &value]), b"+OK\r\n").unwrap());
    let reply = [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat();
    // Replies of more than the sockets hold, of which the client reads none at first.
    within.0.write_all(&command(&["GET", "k"]).repeat(3)).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(within.ask(b"", &reply.repeat(3)).unwrap());
    assert!(within.ask(&b"PING\r\n".repeat(1000), &b"+PONG\r\n".repeat(1000)).unwrap());
    // The plain port has the same keys.
    assert_eq!(Raw::connect(server.address).call(&["STRLEN", "k"]), format!(":{}\r\n", value.len()).into_bytes());
    // An end without a word of TLS would be an error of `read_to_end`.
    within.0.write_all(b"QUIT\r\n").unwrap();
    let mut rest = Vec::new();
    within.0.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"+OK\r\n");
}

#[test]
fn peers_that_do_not_agree_on_keys_delay_no_other() {
    let (files, certificate) = Files::new("silent");
    let server = files.start();
    let silent: Vec<_> = (0..50).map(|_| TcpStream::connect(server.tls()).unwrap()).collect();
    let mut plain = Raw::connect(server.tls());
    plain.send(b"PING\r\n");
    let said = plain.rest();
    // Not a word of the protocol: at most an alert of TLS.
    assert!(said.is_empty() || said[0] == 21, "{said:?}");
    let begun = Instant::now();
    assert!(Tls::connect(server.tls(), &certificate, None).ping().unwrap());
    assert!(begun.elapsed() < Duration::from_secs(5));
    // They are cut off, as the clients that they are.
    drop(server);
    drop(silent);
}

#[test]
fn a_certificate_that_changes_is_shown_to_the_next_client() {
    let (files, first) = Files::new("changes");
    let server = files.start();
    let mut old = Tls::connect(server.tls(), &first, None);
    assert!(old.ping().unwrap());
    // One file alone is of no use: what was there stays.
    std::thread::sleep(Duration::from_millis(1100));
    let key = std::fs::read(files.path("key.pem")).unwrap();
    std::fs::write(files.path("key.pem"), "no key").unwrap();
    assert!(Tls::connect(server.tls(), &first, None).ping().unwrap());
    std::fs::write(files.path("key.pem"), key).unwrap();
    let second = files.renew();
    std::thread::sleep(Duration::from_millis(1100));
    assert!(Tls::connect(server.tls(), &second, None).ping().unwrap());
    assert!(Tls::connect(server.tls(), &first, None).ping().is_err());
    assert!(old.ping().unwrap(), "what was agreed on stays");
}

#[test]
fn clients_show_a_certificate_where_one_is_demanded() {
    let (files, certificate) = Files::new("clients");
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    std::fs::write(files.path("clients.pem"), authority.pem()).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let signed = |by: &Issuer<'_, KeyPair>| {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["client".to_owned()]).unwrap().signed_by(&key, by).unwrap();
        Some((certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap()))
    };
    let tls = TlsOptions { clients: Some(files.path("clients.pem")), at_second: true, ..files.options() };
    let second = Some("127.0.0.1:0".parse().unwrap());
    let server = start(ServerOptions { tls: Some(tls), second, ..options() });
    assert!(Tls::connect(server.tls(), &certificate, None).ping().is_err());
    let mut other = CertificateParams::new(Vec::<String>::new()).unwrap();
    other.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let other = Issuer::new(other, KeyPair::generate().unwrap());
    assert!(Tls::connect(server.tls(), &certificate, signed(&other)).ping().is_err());
    assert!(Tls::connect(server.tls(), &certificate, signed(&issuer)).ping().unwrap());
    let mut memcached = Tls::connect(server.memcached(), &certificate, signed(&issuer));
    assert!(memcached.ask(b"set k 7 0 1\r\nv\r\nget k\r\n", b"STORED\r\nVALUE k 7 1\r\nv\r\nEND\r\n").unwrap());
    assert!(Tls::connect(server.memcached(), &certificate, None).ask(b"version\r\n", b"VERSION").is_err());
}

#[test]
fn parameters_tell_of_tls_and_a_certificate_that_cannot_be_read_is_an_error() {
    let (files, _) = Files::new("parameters");
    let server = files.start();
    let port = Raw::connect(server.address).call(&["CONFIG", "GET", "tls-port"]);
    assert!(String::from_utf8_lossy(&port).contains(&format!("\r\n{}\r\n", server.tls().port())));
    let file = Raw::connect(server.address).call(&["CONFIG", "GET", "tls-cert-file"]);
    assert!(String::from_utf8_lossy(&file).contains("cert.pem"));
    let tls = TlsOptions { key: files.path("absent.pem"), ..files.options() };
    let refused = atoll_server::Server::bind(ServerOptions { tls: Some(tls), ..options() }).unwrap_err();
    assert!(refused.to_string().contains("absent.pem"), "{refused}");
}

#[test]
fn redis_py_works_within_tls() {
    let Some(()) = atoll_sim::requirement::required("redis-py", atoll_sim::requirement::redis_py()) else { return };
    let (files, _) = Files::new("redis-py");
    let server = files.start();
    let script = format!(
        "import redis\nr = redis.Redis(host='127.0.0.1', port={}, ssl=True, ssl_ca_certs='{}')\nassert r.set('k', 'v') and r.get('k') == b'v'",
        server.tls().port(),
        files.path("cert.pem").display()
    );
    let output = std::process::Command::new("python3").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
