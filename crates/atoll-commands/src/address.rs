//! Addresses on the command line: numbers, or names that the system resolves.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// An address such as `127.0.0.1`, `::1` or `localhost`.
pub(super) fn parse_host(text: &str) -> Result<IpAddr, String> {
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) => resolve((text, 0)).map(|found| found.ip()),
    }
}

/// An address and a port such as `127.0.0.1:11211`, `[::1]:11211` or `localhost:11211`.
pub(super) fn parse_socket(text: &str) -> Result<SocketAddr, String> {
    if !text.contains(':') {
        return Err("write an address and a port, such as 127.0.0.1:11211".to_owned());
    }
    resolve(text)
}

/// The first address of a name, of version 4 if it has one: what listens on it is for those who
/// write that.
fn resolve(name: impl ToSocketAddrs) -> Result<SocketAddr, String> {
    let found: Vec<SocketAddr> = name.to_socket_addrs().map_err(|error| error.to_string())?.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| "the name has no address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_addresses() {
        assert_eq!(parse_host("::1"), Ok("::1".parse().unwrap()));
        assert_eq!(parse_host("localhost"), Ok("127.0.0.1".parse().unwrap()));
        assert_eq!(parse_socket("localhost:7"), Ok("127.0.0.1:7".parse().unwrap()));
        assert_eq!(parse_socket("[::1]:7"), Ok("[::1]:7".parse().unwrap()));
        assert!(parse_host("no such name").is_err() && parse_socket("localhost:x").is_err());
        assert!(parse_socket("11211").unwrap_err().contains("a port"));
    }
}
