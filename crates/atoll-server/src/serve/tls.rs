//! The certificate that a server shows, which may change while it runs.
//!
//! The acceptor looks at the files at most once a second, when a peer connects. Connections that
//! are there keep the keys that they have agreed on. Files that cannot be used, perhaps because
//! only one of them is written yet, change nothing; the server says so once.

use super::options::TlsOptions;
use atoll_fabric::FabricError;
use atoll_fabric::tcp::Certificate;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_rustls::rustls::ServerConfig;

/// Between two looks at the files.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// What changes with a file: its number, length and time of change.
type Stamp = Option<(u64, u64, i64, i64)>;

/// The certificate, and what is known of its files.
#[derive(Debug)]
pub(super) struct Certificates {
    options: TlsOptions,
    present: Arc<ServerConfig>,
    /// The files as they were when they were last tried.
    tried: [Stamp; 3],
    looked: Instant,
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// [`FabricError::System`] if one cannot be read, or they do not belong together.
    pub(super) fn read(options: &TlsOptions) -> Result<Self, FabricError> {
        let tried = stamps(options);
        Ok(Self { options: options.clone(), present: load(options)?, tried, looked: Instant::now() })
    }

    /// What the next peer is shown.
    pub(super) fn present(&mut self) -> Arc<ServerConfig> {
        if self.looked.elapsed() >= LOOK_PERIOD {
            self.looked = Instant::now();
            self.look();
        }
        self.present.clone()
    }

    fn look(&mut self) {
        let stamps = stamps(&self.options);
        if stamps == self.tried {
            return;
        }
        self.tried = stamps;
        match load(&self.options) {
            Ok(config) => self.present = config,
            Err(error) => tracing::error!("{error}: the last certificate stays"),
        }
    }
}

fn load(options: &TlsOptions) -> Result<Arc<ServerConfig>, FabricError> {
    let TlsOptions { certificate, key, clients, .. } = options;
    Certificate::of_files(certificate, key, clients.as_deref()).map(|certificate| certificate.config())
}

fn stamps(options: &TlsOptions) -> [Stamp; 3] {
    let stamp = |path: &Path| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
    };
    [stamp(&options.certificate), stamp(&options.key), options.clients.as_deref().and_then(stamp)]
}
