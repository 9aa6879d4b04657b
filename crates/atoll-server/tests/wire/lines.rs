//! A second protocol, in a few lines: the server knows nothing of Redis.

use crate::common::{facts, options};
use atoll_cache::model::Model;
use atoll_cache::{Cache, Engine, SetOptions, Value};
use atoll_fabric::Clock;
use atoll_server::serve::Output;
use atoll_server::serve::handle::Handle;
use atoll_server::serve::protocol::{Client, Ended, Listener, OUTPUT_BYTES_MAX};
use atoll_server::{Protocol, Server, ServerOptions};
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// `get KEY`, `set KEY VALUE` and `bye`, a line each; so is every reply.
#[derive(Clone, Copy)]
struct Lines;

impl Protocol for Lines {
    /// Its number.
    type State = u64;
    type Scratch = Value;

    fn commands() -> Vec<&'static str> {
        vec!["get", "set", "bye"]
    }

    fn too_many(_: Listener) -> &'static [u8] {
        b"too many\n"
    }

    fn connect(&self, handle: &Arc<Handle>) -> u64 {
        handle.id
    }

    fn bytes_expected(_: &u64) -> usize {
        0
    }

    async fn run<G: Engine>(
        &self,
        id: &mut u64,
        value: &mut Value,
        client: Client<'_, G>,
        input: &[u8],
        start: &mut usize,
        output: &mut Output,
    ) -> Ended {
        while let Some(length) = input[*start..].iter().position(|byte| *byte == b'\n') {
            let words: Vec<&[u8]> = input[*start..*start + length].split(|byte| *byte == b' ').collect();
            *start += length + 1;
            match words[..] {
                [b"get", key] => {
                    client.tally.borrow_mut().calls[0] += 1;
                    match client.cache.get(key, value).await {
                        Ok(true) => output.push_value(value),
                        _ => output.push(b"nothing"),
                    }
                }
                [b"set", key, value] => {
                    client.tally.borrow_mut().calls[1] += 1;
                    let set = client.cache.set(key, value, &SetOptions::default()).await;
                    output.push(if set.is_ok() { b"done" } else { b"failed" });
                }
                [b"bye"] => {
                    output.push(format!("bye {id}\n").as_bytes());
                    return Ended::Closing;
                }
                _ => output.push(b"what?"),
            }
            output.push(b"\n");
            if output.len() >= OUTPUT_BYTES_MAX {
                return Ended::Full;
            }
        }
        Ended::Drained
    }
}

struct Peer(BufReader<TcpStream>);

impl Peer {
    fn connect(address: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(address).unwrap()))
    }

    fn call(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

#[test]
fn another_protocol_is_served_by_the_same_server() {
    let metrics = Some("127.0.0.1:0".parse().unwrap());
    let server = Server::bind(ServerOptions { clients_max: 2, metrics, ..options() }).unwrap();
    let (address, stopper) = (server.address().unwrap().unwrap(), server.stopper());
    let metrics = server.metrics_address().unwrap().unwrap();
    let thread = std::thread::spawn(move || {
        let client = |_| Ok::<_, Infallible>(Cache::new(Model::new(Clock::host())));
        server.run(Lines, facts(), client).unwrap();
    });
    let (mut first, mut second) = (Peer::connect(address), Peer::connect(address));
    assert_eq!(first.call("set k v"), "done");
    assert_eq!(second.call("get k"), "v");
    assert_eq!(second.call("get absent"), "nothing");
    assert_eq!(Peer::connect(address).line(), "too many");
    // A pipeline whose replies are longer than a batch's, a command in pieces, and one that is
    // none.
    let value = "x".repeat(100_000);
    assert_eq!(first.call(&format!("set big {value}")), "done");
    first.0.get_mut().write_all(&[b"get big\n".repeat(40), b"get".to_vec()].concat()).unwrap();
    (0..40).for_each(|_| assert!(first.line() == value));
    assert_eq!(first.call(" k"), "v");
    assert_eq!(first.call("put k"), "what?");
    assert_eq!(first.call("bye"), "bye 1");
    assert_eq!(first.line(), "", "the connection has ended");
    let begun = std::time::Instant::now();
    loop {
        let (mut http, mut text) = (TcpStream::connect(metrics).unwrap(), String::new());
        http.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        http.read_to_string(&mut text).unwrap();
        if text.contains("\natoll_commands_total{command=\"get\"} 43\n") {
            break;
        }
        // Workers publish once a second.
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{text}");
    }
    stopper.stop();
    thread.join().unwrap();
}
