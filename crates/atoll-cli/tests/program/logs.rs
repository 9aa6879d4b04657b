//! The log of a server, on standard error.

use crate::binary::refused;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A server with a password, and what it logs.
struct Logged(Child);

impl Logged {
    fn start(args: &[&str]) -> (Self, u16) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_atoll"))
            .args(["serve", "--port", "0", "--capacity", "16MiB", "--user", "ana on >right ~* +@all"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.split_whitespace().find_map(|word| word.rsplit_once(':')?.1.parse().ok());
        (Self(child), port.unwrap_or_else(|| panic!("no port in {line:?}")))
    }

    /// What it has logged, after it was asked to stop.
    fn stopped(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut log = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(self.0.wait().unwrap().success(), "{log}");
        log
    }
}

/// Tries three wrong passwords, the last for a name that no terminal should be shown.
fn log_in_wrongly(port: u16) {
    let mut connection = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
    for user in ["ana", "ana", "\x1b[31m"] {
        write!(connection.get_mut(), "*3\r\n$4\r\nAUTH\r\n${}\r\n{user}\r\n$5\r\nwrong\r\n", user.len()).unwrap();
        let mut reply = String::new();
        connection.read_line(&mut reply).unwrap();
        assert!(reply.starts_with("-WRONGPASS"), "{reply}");
    }
}

#[test]
fn refused_logins_are_logged_without_the_password_and_at_most_once_a_second() {
    let (server, port) = Logged::start(&["--log-format", "json"]);
    log_in_wrongly(port);
    let log = server.stopped();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |level: &str| {
        let of_level = lines.iter().filter(|line| line["level"] == level);
        of_level.map(|line| line["message"].as_str().unwrap()).collect::<Vec<_>>()
    };
    let refused = of("WARN");
    assert!((1..=2).contains(&refused.len()), "{log}");
    assert!(refused[0].starts_with("a login as ana is refused to 127.0.0.1:"), "{log}");
    assert!(of("INFO").iter().any(|line| line.starts_with("the server stops")), "{log}");
    assert!(!log.contains("wrong") && !log.contains('\x1b') && of("DEBUG").is_empty(), "{log}");
}

#[test]
fn the_level_chooses_the_lines() {
    let (quiet, port) = Logged::start(&["--log-level", "error"]);
    log_in_wrongly(port);
    assert_eq!(quiet.stopped(), "");
    let (server, port) = Logged::start(&["--log-level", "debug"]);
    log_in_wrongly(port);
    let log = server.stopped();
    let has = |level: &str, text: &str| log.lines().any(|line| line.contains(level) && line.contains(text));
    assert!(has("DEBUG", "connection 1 from 127.0.0.1:") && has("DEBUG", "connection 1 has ended"), "{log}");
    assert!(has("WARN", "a login as ana") && has("INFO", "the server stops"), "{log}");
    assert!(refused(&["serve", "--log-level", "loud"]).contains("possible values"));
}
