//! `atoll advise`: of a load, and of a server that runs.

use crate::binary::{Serving, atoll, printed, refused};
use serde_json::Value;
use std::time::{Duration, Instant};

/// The advice, whose curve must rise with the capacity.
fn advice(args: &[&str]) -> Value {
    let printed = printed(&[&["advise", "--json"], args].concat());
    let advice: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let forge: Vec<f64> = points(&advice).iter().map(|point| point["hit_ratios"]["forge"].as_f64().unwrap()).collect();
    assert!(forge.len() > 3 && forge.is_sorted() && forge.iter().all(|ratio| (0.0..=1.0).contains(ratio)), "{advice}");
    advice
}

fn points(advice: &Value) -> &[Value] {
    advice["points"].as_array().unwrap()
}

#[test]
fn a_load_has_a_curve_of_each_engine_and_one_engine_fits() {
    let named = advice(&["zipf:20000,0.9,200000"]);
    assert_eq!(named["requests"], 200_000);
    let engine = named["engine"].as_str().unwrap();
    assert!(
        points(&named)
            .iter()
            .all(|point| point["hit_ratios"][engine].is_f64() && point["hit_ratios"]["ditto"].is_f64())
    );
    let given = advice(&["zipf:20000,0.9,200000", "--capacity", "1MiB"]);
    let of_given =
        points(&given).iter().find(|point| point["capacity_bytes"].as_u64().unwrap().abs_diff(1 << 20) < 1000);
    // A popular half of the objects takes most requests.
    let ratio = of_given.expect("the capacity that is there")["hit_ratios"]["forge"].as_f64().unwrap();
    assert!((0.6..0.85).contains(&ratio), "{given}");
    let text = printed(&["advise", "zipf:20000,0.9,200000"]);
    assert!(text.contains("capacity") && text.contains("The engine that fits: forge."), "{text}");
}

#[test]
fn a_server_has_the_curve_of_its_load() {
    let server = Serving::start(&["--capacity", "4MiB"]);
    let address = format!("127.0.0.1:{}", server.port);
    let early = refused(&["advise", &address]);
    assert!(early.contains("shows no curve: nothing was read from it yet"), "{early}");
    let mut redis = server.connect();
    // Three times what fits, and some keys more often than others.
    let value = "x".repeat(250);
    for round in 0..40_u64 {
        let mut pipe = redis::pipe();
        let key = |number: u64| (number * number / 1000 + round * 37 % 100) % 40_000;
        (0..2000).for_each(|number| _ = pipe.get(key(number * 3 + round)).ignore());
        (0..2000).for_each(|number| _ = pipe.set(key(number * 3 + round), &value).ignore());
        let () = pipe.query(&mut redis).unwrap();
    }
    // Its client tells its lookups once a second.
    let until = Instant::now() + Duration::from_secs(10);
    while !atoll(&["advise", &address]).status.success() {
        assert!(Instant::now() < until, "{}", refused(&["advise", &address]));
        std::thread::sleep(Duration::from_millis(100));
    }
    let found = advice(&[&address]);
    assert_eq!(found["capacity_bytes"], 4 << 20);
}

#[test]
fn what_is_neither_a_load_nor_a_server_is_refused_with_what_to_name() {
    let said = refused(&["advise", "no-such-file"]);
    assert!(said.contains("no-such-file is neither a file nor HOST:PORT: name a trace or a server"), "{said}");
    let said = refused(&["advise", "127.0.0.1:1"]);
    assert!(said.contains("refused") || said.contains("talk to the server"), "{said}");
    assert!(refused(&["advise", "zipf:10"]).contains("zipf"), "a load that is not whole");
}
