//! The addresses that the server listens on.
//!
//! The acceptor binds each address once. So an address in use is an error at the start, and no
//! worker unknowingly shares an address with another server.
//!
//! A Unix socket leaves a file behind when its server dies. The acceptor finds out whether a server
//! listens on the file by connecting to it:
//!
//! | the file | what happens |
//! |---|---|
//! | does not exist | the socket is bound |
//! | is a socket that refuses connections | it is stale: removed, and the socket is bound |
//! | is a socket that accepts a connection | error: another server listens there |
//! | is anything else | error: the server must not remove it |

use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Connections that the system keeps until the acceptor takes them, or fewer if
/// `net.core.somaxconn` is less. One that finds no room is tried again after a second: with the 128
/// of Rust's library, a fleet of 10,000 clients took half a minute to connect.
pub(crate) const BACKLOG: u16 = 1024;

/// Why the server cannot listen on an address.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process has the port.
    #[error("{address} is in use: stop the server that listens there, or choose another port")]
    PortBusy {
        /// The address.
        address: SocketAddr,
    },
    /// The system refuses the address.
    #[error("cannot listen on {address} ({source}): choose another address or port")]
    Address {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// Another server listens on the Unix socket.
    #[error("another server listens on {}: stop it, or choose another path", path.display())]
    SocketBusy {
        /// The path.
        path: PathBuf,
    },
    /// The path of the Unix socket is a file of another kind.
    #[error("{} is not a socket: remove it, or choose another path", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system refuses the Unix socket.
    #[error("cannot listen on {} ({source}): choose another path", path.display())]
    Socket {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Listens on a TCP address.
pub fn tcp(address: SocketAddr) -> Result<std::net::TcpListener, ListenError> {
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        SockRef::from(&listener).listen(BACKLOG.into())?;
        Ok(listener)
    });
    bound.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::PortBusy { address },
        _ => ListenError::Address { address, source },
    })
}

/// A Unix socket that is listened on. Dropping it removes its file.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file: another server may have put its own in the place of ours.
    file: (u64, u64),
}

impl UnixSocket {
    /// Listens on `path`.
    pub fn bind(path: &Path) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Socket { path: path.to_owned(), source };
        match std::fs::symlink_metadata(path) {
            Ok(file) if !file.file_type().is_socket() => return Err(ListenError::NotASocket { path: path.to_owned() }),
            Ok(_) => match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path).map_err(failed)?;
                }
                Ok(_) => return Err(ListenError::SocketBusy { path: path.to_owned() }),
                Err(error) => return Err(failed(error)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        SockRef::from(&listener).listen(BACKLOG.into()).map_err(failed)?;
        let file = std::fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned(), file: (file.dev(), file.ino()) })
    }

    /// Another handle of the listening socket, for the acceptor.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let ours = |file: std::fs::Metadata| (file.dev(), file.ino()) == self.file;
        if std::fs::symlink_metadata(&self.path).is_ok_and(ours) {
            // Nothing is left to be done if it fails: the next server finds the file stale.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("atoll-listen-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_busy_port_is_an_error_that_says_what_to_do() {
        let first = tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let error = tcp(first.local_addr().unwrap()).unwrap_err();
        assert!(matches!(error, ListenError::PortBusy { .. }));
        assert!(error.to_string().contains("choose another port"), "{error}");
    }

    #[test]
    fn a_crowd_connects_before_any_of_it_is_accepted() {
        let listener = tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let most: usize = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
        let connect = |_| std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_millis(900));
        let crowd: io::Result<Vec<_>> = (0..most.min(500)).map(connect).collect();
        crowd.expect("the system tries again after a second what has found no room");
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let path = path("socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a dropped listener leaves its file");
        let live = UnixSocket::bind(&path).unwrap();
        assert!(matches!(UnixSocket::bind(&path), Err(ListenError::SocketBusy { .. })));
        drop(live);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_of_another_kind_is_left_alone() {
        let path = path("file");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(UnixSocket::bind(&path), Err(ListenError::NotASocket { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
    }
}
