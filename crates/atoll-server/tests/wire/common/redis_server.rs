//! A real redis-server, to compare with.

use super::Raw;
use atoll_sim::required;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A redis-server, which ends with this.
pub(crate) struct Redis {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Redis {
    /// A redis-server on a free port; `None` if there is none and the environment permits that.
    pub(crate) fn start() -> Option<Self> {
        required("redis-server", Self::is_installed())?;
        let redis = (0..5).find_map(|_| Self::on_a_free_port());
        Some(redis.expect("a redis-server that listens on one of five ports that were free"))
    }

    /// A redis-server on a port that was free a moment ago; `None` if it did not get that port,
    /// which another test may have taken since.
    fn on_a_free_port() -> Option<Self> {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let process = Command::new("redis-server")
            .args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // From here on it is ended and waited for, also by a panic.
        let mut redis = Self { process, address };
        for _ in 0..500 {
            if redis.answers() {
                return Some(redis);
            }
            if redis.process.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("redis-server does not answer on {address}");
    }

    /// Whether it is this very process that answers on the port, and no other server.
    fn answers(&self) -> bool {
        if std::net::TcpStream::connect(self.address).is_err() {
            return false;
        }
        let info = Raw::connect(self.address).call(&["INFO", "server"]);
        String::from_utf8_lossy(&info).lines().any(|line| line == format!("process_id:{}", self.process.id()))
    }

    /// Whether there is one of version 7.
    fn is_installed() -> Result<(), String> {
        let output = Command::new("redis-server").arg("--version").output();
        let output = output.map_err(|error| format!("redis-server is not installed: {error}"))?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        if version.contains("v=7.") { Ok(()) } else { Err(format!("redis-server 7 is wanted, and this is {version}")) }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
