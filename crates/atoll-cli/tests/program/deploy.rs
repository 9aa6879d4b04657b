//! The files in `deploy` fit the program: options, and names of metrics.

use crate::binary::printed;
use atoll_sim::requirement::offered;
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
    assert!(shown.contains("metrics = \"127.0.0.1:9121\""), "{shown}");
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
    // Times are of commands that have run. Of INFO all are taken.
    let (_, served) = line.split_once(" serves ").unwrap();
    let mut client = TcpStream::connect(served.split(' ').next().unwrap()).unwrap();
    client.write_all(b"INFO\r\nINFO\r\nQUIT\r\n").unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
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

/// The script runs a load, and asks Prometheus what each panel asks. It also evaluates the alerts.
#[test]
fn every_query_of_the_dashboard_gives_values_in_prometheus() {
    let found = Command::new("prometheus").arg("--version").output();
    let found = found.map_err(|_| "prometheus is not installed: apt-get install prometheus".to_owned());
    let Some(_) = offered("prometheus", found) else { return };
    let script = deploy().join("../scripts/dashboard-picture");
    let ran = Command::new(script).args(["--program", env!("CARGO_BIN_EXE_atoll"), "--seconds", "6"]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
}

/// The options that a text sets: `name = value`, a line each.
fn options(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| Some(line.trim().split_once(" = ")?.0.to_owned()));
    names.filter(|name| name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'_')).collect()
}

#[test]
fn the_chart_sets_options_that_a_server_has() {
    let help = printed(&["serve", "--help"]);
    let template = std::fs::read_to_string(deploy().join("helm/atoll/templates/configmap.yaml")).unwrap();
    let set = options(&template);
    assert!(set.len() >= 8, "{set:?}");
    for name in set {
        assert!(help.contains(&format!("--{} ", name.replace('_', "-"))), "{name}");
    }
}

/// What `helm template` makes of the chart with these values.
fn rendered(values: &[&str]) -> Result<String, String> {
    let set = values.iter().flat_map(|value| ["--set", value]);
    let chart = deploy().join("helm/atoll");
    let ran = Command::new("helm").args(["template", "cache"]).arg(chart).args(set).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if ran.status.success() { Ok(text(ran.stdout)) } else { Err(text(ran.stderr)) }
}

/// The server's file of options in what was rendered.
fn options_file(rendered: &str) -> String {
    let (_, behind) = rendered.split_once("atoll.toml: |\n").expect("the chart has a file of options");
    let lines = behind.lines().take_while(|line| line.starts_with("    ") || line.is_empty());
    lines.map(|line| line.get(4..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_helm_renders_is_a_file_of_options_and_asks_for_a_password() {
    let found = Command::new("helm").arg("version").output().map_err(|_| "helm is not installed".to_owned());
    let Some(_) = offered("helm", found) else { return };
    assert!(rendered(&[]).unwrap_err().contains("other hosts need a password"));
    assert!(rendered(&["passwordSecret=s", "service.memcachedPort=11211"]).is_err());
    let file = std::env::temp_dir().join(format!("atoll-chart-{}.toml", std::process::id()));
    for (values, shown) in [
        (&["passwordSecret=s"][..], &["capacity = \"1GiB\"", "password_file = \"/etc/atoll-password/password\""][..]),
        (
            &["unprotected=true", "pool=shm:/x", "service.memcachedPort=11211"],
            &["pool = \"shm:/x\"", "protected_mode = false"],
        ),
        (
            &["passwordSecret=s", "options.log_format=json", "options.threads=3"],
            &["log_format = \"json\"", "threads = 3"],
        ),
    ] {
        let rendered = rendered(values).unwrap();
        assert!(!rendered.contains("ServiceMonitor"));
        std::fs::write(&file, options_file(&rendered)).unwrap();
        let printed = printed(&["serve", "--config", "--config-file", file.to_str().unwrap()]);
        for line in shown {
            assert!(printed.contains(line), "{values:?}: {line} in {printed}");
        }
    }
    std::fs::remove_file(&file).unwrap();
    let monitored = rendered(&["passwordSecret=s", "metrics.serviceMonitor.enabled=true"]).unwrap();
    assert!(monitored.contains("kind: ServiceMonitor") && monitored.contains("emptyDir: {medium: Memory"));
}
