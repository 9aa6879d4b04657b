//! The files in `deploy` fit the program: options, and names of metrics.

use crate::binary::printed;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// The names in a text that begin as those of metrics do.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("atoll_")).map(str::to_owned).collect()
}

#[test]
fn the_example_of_a_file_of_options_is_one() {
    let file = deploy().join("atoll.toml");
    let shown = printed(&["serve", "--config", "--config-file", file.to_str().unwrap()]);
    assert!(shown.contains("metrics = 127.0.0.1:9121"), "{shown}");
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_a_server_has() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_atoll"))
        .args(["serve", "--port", "0", "--capacity", "16MiB", "--metrics", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("metrics"), "{line}");
    let (_, address) = line.trim_end().trim_end_matches("/metrics").rsplit_once("http://").unwrap();
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let there = metrics(&text);
    for file in ["prometheus/alerts.yml", "grafana/atoll.json"] {
        let asked = std::fs::read_to_string(deploy().join(file)).unwrap();
        // The panels' own names are no metrics.
        let asked: BTreeSet<String> = metrics(&asked);
        assert!(asked.len() > 5, "{file}: {asked:?}");
        let absent: Vec<&String> = asked.difference(&there).collect();
        assert!(absent.is_empty(), "{file} asks for {absent:?}");
    }
}
