//! A connection's stream as its worker reads and writes it: plain, or within TLS.
//!
//! One type for all of them, so that a connection is compiled once.

use super::handle::Handle;
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

/// How long a peer may take to agree on the keys.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// An accepted connection on its way to its worker.
pub(crate) enum Stream {
    /// Over TCP; within TLS as this says.
    Tcp(std::net::TcpStream, Option<Arc<ServerConfig>>),
    /// Over a Unix socket.
    Unix(std::os::unix::net::UnixStream),
}

/// The same within the worker's runtime.
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Registers the stream with the runtime; agrees on keys with a peer that speaks TLS.
    pub(super) async fn open(stream: Stream) -> io::Result<Self> {
        Ok(match stream {
            Stream::Tcp(stream, None) => Self::Tcp(TcpStream::from_std(stream)?),
            Stream::Unix(stream) => Self::Unix(UnixStream::from_std(stream)?),
            Stream::Tcp(stream, Some(config)) => {
                let agreed = TlsAcceptor::from(config).accept(TcpStream::from_std(stream)?);
                Self::Tls(Box::new(tokio::time::timeout(HANDSHAKE_MAX, agreed).await??))
            }
        })
    }

    /// Tells a peer that speaks TLS that nothing more comes, as far as its socket takes it at once.
    pub(super) fn say_end(&mut self) {
        if let Self::Tls(stream) = self {
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let _ = Pin::new(stream).poll_shutdown(&mut cx);
        }
    }
}

/// A socket that is written to. Its handle notes when the peer takes bytes.
pub(super) struct Outgoing<'c> {
    pub(super) socket: &'c mut Socket,
    pub(super) handle: &'c Handle,
    /// The worker's clock.
    pub(super) now_ms: &'c Cell<u64>,
}

impl Outgoing<'_> {
    #[inline]
    fn noted(&self, taken: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(1..)) = taken {
            self.handle.heard(self.now_ms.get());
        }
        taken
    }
}

impl AsyncWrite for Outgoing<'_> {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut *self.socket).poll_write(cx, bytes);
        self.noted(taken)
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut *self.socket).poll_write_vectored(cx, pieces);
        self.noted(taken)
    }

    #[inline]
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.socket).poll_shutdown(cx)
    }
}

macro_rules! on_stream {
    ($socket:expr, $stream:ident => $done:expr) => {
        match $socket.get_mut() {
            Socket::Tcp($stream) => $done,
            Socket::Unix($stream) => $done,
            Socket::Tls($stream) => $done,
        }
    };
}

impl AsyncRead for Socket {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_read(cx, into))
    }
}

impl AsyncWrite for Socket {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => Pin::new(stream).poll_write_vectored(cx, pieces))
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
