//! Options from the environment and from a file, completions and manual pages.

use crate::binary::{printed, refused};
use std::path::PathBuf;
use std::process::Command;

/// A directory of this test, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("atoll-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_server_takes_options_from_the_command_line_then_the_environment_then_a_file() {
    let directory = Directory::new("settings");
    let file = directory.file(
        "atoll.toml",
        "[serve]\nport = 7001\nmaxclients = 5\nthreads = 3\nprotected_mode = false\ncapacity = '64MiB'\n[node]\n",
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.args(["serve", "--config", "--config-file", &file, "--port", "7003"]);
    let output = command.env("ATOLL_SERVE_PORT", "7002").env("ATOLL_SERVE_MAXCLIENTS", "6").output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    for line in [
        "port = 7003",
        "maxclients = 6",
        "threads = 3",
        "evict_ahead = false",
        "protected_mode = false",
        "timeout = 0",
        "log_level = \"info\"",
    ] {
        assert!(shown.lines().any(|other| other.split("  #").next().unwrap().trim_end() == line), "{line} in {shown}");
    }
    for (option, whence) in
        [("port", "command line"), ("maxclients", "ATOLL_SERVE_MAXCLIENTS"), ("threads", &format!("{file}, [serve]"))]
    {
        let line = shown.lines().find(|line| line.starts_with(&format!("{option} = "))).unwrap();
        assert!(line.ends_with(&format!("  # {whence}")), "{line}");
    }
}

#[test]
fn what_config_prints_is_a_file_of_options_that_says_the_same() {
    let directory = Directory::new("settings-again");
    for (command, given) in [
        ("serve", &["--capacity", "64MiB", "--unix", "/a \"path\"", "--engine", "ditto", "--experts", "lru+lfu"][..]),
        ("node", &["--capacity", "1GiB", "--threads", "2", "--listen", "127.0.0.1:7701"]),
    ] {
        let first = printed(&[&[command, "--config"][..], given].concat());
        let file = directory.file("atoll.toml", &first);
        let again = printed(&[command, "--config", "--config-file", &file]);
        let options = |text: &str| {
            let table: toml::Table = text.parse().unwrap();
            table[command].as_table().unwrap().clone()
        };
        assert_eq!(options(&first), options(&again), "{first}");
        assert!(options(&first).len() >= 5, "{first}");
    }
}

#[test]
fn a_wrong_value_of_a_file_is_refused_with_where_it_stands() {
    let directory = Directory::new("settings-wrong");
    let file = directory.file("atoll.toml", "[serve]\nport = 'x'\n");
    let said = refused(&["serve", "--config-file", &file]);
    assert!(said.contains("'x'") && said.contains(&format!("--port ({file}, [serve])")), "{said}");
    let file = directory.file("atoll.toml", "[serve]\nprot = 1\n");
    let said = refused(&["node", "--config-file", &file, "--listen", "nowhere"]);
    assert!(!said.contains("prot"), "the table of another command: {said}");
    assert!(refused(&["serve", "--config-file", &file]).contains("[serve] has prot"));
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let completions = printed(&["completions", "bash"]);
    assert!(completions.contains("--memcached-tls") && completions.contains("repair"), "{}", completions.len());
    // Who reads it may have enough at any time.
    let mut unread = std::process::Command::new(env!("CARGO_BIN_EXE_atoll"));
    let mut unread = unread.args(["completions", "zsh"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(unread.stdout.take());
    assert!(unread.wait().unwrap().success());
    let directory = Directory::new("man");
    printed(&["man", directory.0.to_str().unwrap()]);
    for page in ["atoll.1", "atoll-serve.1", "atoll-pool-repair.1", "atoll-node.1"] {
        let text = std::fs::read_to_string(directory.0.join("man1").join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
    assert!(refused(&["man", "/none/such"]).contains("make it first"));
}
