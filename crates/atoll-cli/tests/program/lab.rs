//! The lab's commands that are of the simulated network, as a user types them.

use crate::binary::{printed, refused};
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

#[test]
fn the_simulated_networks_are_held_against_the_papers() {
    let report = json(&["lab", "validate", "--json"]);
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.len() >= 25, "{report}");
    for row in rows {
        let (model, ratio) = (row["model"].as_f64().unwrap(), row["ratio"].as_f64().unwrap());
        let nearest = model.clamp(row["paper"].as_f64().unwrap(), row["paper_max"].as_f64().unwrap());
        assert!((model / nearest - ratio).abs() < 1e-9, "{row}");
    }
}

#[test]
fn experiments_are_listed_and_one_that_is_not_there_is_refused() {
    let listed = json(&["lab", "list", "--json"]);
    assert!(listed.as_array().unwrap().iter().any(|each| each["name"] == "forge-fig13"), "{listed}");
    assert!(refused(&["lab", "run", "forge-fig99"]).contains("atoll lab list"));
}
