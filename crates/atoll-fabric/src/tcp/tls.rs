//! TLS around connections, where the user asks for it.
//!
//! | side | has |
//! |---|---|
//! | agent | its certificate, and the key of that |
//! | client | the certificate of the authority that signed the agent's |
//!
//! TLS proves the agent and hides the bytes. The client proves itself by the shared secret, within
//! TLS. Frames are the same.

use crate::FabricError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, Stream};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// The authority whose agents a client trusts.
#[derive(Clone)]
pub struct Authority(Arc<ClientConfig>);

/// What an agent or a server shows of itself, and its key.
#[derive(Clone)]
pub struct Certificate(Arc<ServerConfig>);

fn failed(path: &Path, what: &'static str) -> impl Fn(io::Error) -> FabricError {
    let name = path.display().to_string();
    move |source| FabricError::System { name: name.clone(), what, source }
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(io::Error::other)?;
    if found.is_empty() { Err(io::Error::other("it has no certificate in PEM form")) } else { Ok(found) }
}

impl Authority {
    /// That with the certificates in a file (PEM).
    ///
    /// # Errors
    /// [`FabricError::System`] if the file cannot be read, or has none.
    pub fn of_file(path: &Path) -> Result<Self, FabricError> {
        Self::read(path).map_err(failed(path, "read the certificate of the authority"))
    }

    fn roots(path: &Path) -> io::Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(io::Error::other)?;
        }
        Ok(roots)
    }

    fn read(path: &Path) -> io::Result<Self> {
        let roots = Self::roots(path)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = builder.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }
}

impl Certificate {
    /// The certificate in one file, with those that link it to its authority, and the key in
    /// another (PEM). With `clients` its peers must show a certificate, too: of the authority in
    /// that file.
    ///
    /// # Errors
    /// [`FabricError::System`] if one cannot be read, or they do not belong together.
    pub fn of_files(certificate: &Path, key: &Path, clients: Option<&Path>) -> Result<Self, FabricError> {
        let chain = certificates(certificate).map_err(failed(certificate, "read the certificate"))?;
        let verified = |path: &Path| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let roots = Arc::new(Authority::roots(path)?);
            WebPkiClientVerifier::builder_with_provider(roots, provider).build().map_err(io::Error::other)
        };
        let verifier = match clients {
            Some(path) => Some(verified(path).map_err(failed(path, "read the certificate of the clients' authority"))?),
            None => None,
        };
        let read = |path: &Path| {
            let key = PrivateKeyDer::from_pem_file(path).map_err(io::Error::other)?;
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            let builder = builder.map_err(io::Error::other)?;
            let builder = match verifier {
                Some(verifier) => builder.with_client_cert_verifier(verifier),
                None => builder.with_no_client_auth(),
            };
            builder.with_single_cert(chain.clone(), key).map_err(io::Error::other)
        };
        Ok(Self(Arc::new(read(key).map_err(failed(key, "use the certificate's key"))?)))
    }

    /// What a server of another protocol needs of it.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.0.clone()
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificate")
    }
}

/// The error of a client's handshake, with what its user can do about it.
pub(super) fn explained(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let advice = match cause {
        // A certificate that `openssl req -x509` makes by its defaults is an authority's.
        Some(rustls::Error::InvalidCertificate(_)) => {
            "the authority in the file behind ?ca= must have signed the node's certificate; that names the host of the \
             address, and is no authority's itself (CA:FALSE)"
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "it speaks no TLS: leave out ?ca=FILE, or start it with --tls-cert and --tls-key"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}: {advice}"))
}

/// TLS of one connection, whose socket its owner keeps.
#[derive(Debug)]
pub(super) enum Tunnel {
    Client(Box<ClientConnection>),
    Agent(Box<ServerConnection>),
}

macro_rules! on_side {
    ($tunnel:expr, $side:ident => $done:expr) => {
        match $tunnel {
            Tunnel::Client($side) => $done,
            Tunnel::Agent($side) => $done,
        }
    };
}

impl Tunnel {
    /// To the agent at `HOST:PORT`.
    pub(super) fn to_agent(authority: &Authority, address: &str) -> io::Result<Self> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        let connection = ClientConnection::new(authority.0.clone(), name).map_err(io::Error::other)?;
        Ok(Self::Client(Box::new(connection)))
    }

    /// To a client that has connected; `None` if the system has no randomness.
    pub(super) fn to_client(certificate: &Certificate) -> Option<Self> {
        ServerConnection::new(certificate.0.clone()).ok().map(|connection| Self::Agent(Box::new(connection)))
    }

    /// Reads as the socket does; [`io::ErrorKind::WouldBlock`] means that nothing is left here
    /// either.
    pub(super) fn read(&mut self, mut socket: impl Read + Write, into: &mut [u8]) -> io::Result<usize> {
        on_side!(self, side => Stream::new(&mut **side, &mut socket).read(into))
    }

    /// Takes bytes to send, of which the socket may get a part only later: see [`Self::flush`].
    pub(super) fn write(&mut self, mut socket: impl Read + Write, from: &[u8]) -> io::Result<usize> {
        on_side!(self, side => Stream::new(&mut **side, &mut socket).write(from))
    }

    /// Whether it has bytes for the socket.
    #[inline]
    pub(super) fn is_sending(&self) -> bool {
        on_side!(self, side => side.wants_write())
    }

    /// Sends what it has, as far as the socket takes it; whether that is all.
    pub(super) fn flush(&mut self, mut socket: impl Read + Write) -> io::Result<bool> {
        while self.is_sending() {
            match on_side!(self, side => side.write_tls(&mut socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Reads what has arrived on a connection, within TLS or without. `None` if nothing has; 0 bytes if
/// nothing ever will.
pub(super) fn read<S: Read + Write>(
    stream: &mut S,
    tunnel: &mut Option<Tunnel>,
    into: &mut [u8],
) -> io::Result<Option<usize>> {
    loop {
        let read = match tunnel {
            Some(tunnel) => tunnel.read(&mut *stream, into),
            None => stream.read(into),
        };
        match read {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes as much as the peer takes now, within TLS or without; returns how many bytes.
pub(super) fn write<S: Read + Write>(stream: &mut S, tunnel: &mut Option<Tunnel>, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        let written = match tunnel {
            Some(tunnel) => tunnel.write(&mut *stream, &bytes[sent..]),
            None => stream.write(&bytes[sent..]),
        };
        match written {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => sent += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(tunnel) = tunnel {
        tunnel.flush(&mut *stream)?;
    }
    Ok(sent)
}
