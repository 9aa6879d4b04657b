//! An async service whose tasks share a cache: `cargo run --release --features serde --example
//! async_service`.
//!
//! A thousand tasks want prices from a slow upstream. It is asked once for each of ten.

use atoll::cache::future::Cache;
use atoll::cache::typed::Serde;
use atoll::{Codec, Pool, PoolOptions};
use std::time::Duration;

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Price {
    cents: u64,
    currency: String,
}

/// An upstream that takes its time, and fails for some.
async fn upstream(article: u32) -> Result<Price, String> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    if article == 9 {
        Err("no such article".to_owned())
    } else {
        Ok(Price { cents: 100 * u64::from(article), currency: "EUR".to_owned() })
    }
}

async fn price_of(cache: &Cache, article: u32) -> Result<Price, String> {
    let load = async {
        let (price, mut bytes) = (upstream(article).await?, Vec::new());
        Serde.encode(&price, &mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    };
    let bytes = cache.try_get_with(format!("price:{article}").as_bytes(), load).await;
    Serde
        .decode(&bytes.map_err(|error: atoll::LoadError<String>| error.to_string())?)
        .map_err(|error| error.to_string())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::anonymous(&PoolOptions::default().capacity_bytes(16 << 20))?;
    let cache = atoll::Cache::builder().time_to_live(Duration::from_secs(60)).build(&pool)?.into_future()?;
    let tasks: Vec<_> = (0..1000)
        .map(|task| {
            let cache = cache.clone();
            tokio::spawn(async move { price_of(&cache, task % 10).await })
        })
        .collect();
    let mut sum_cents = 0;
    for task in tasks {
        if let Ok(price) = task.await? {
            assert_eq!(price.currency, "EUR");
            sum_cents += price.cents;
        }
    }
    println!("the sum is {sum_cents} cents; upstream gave {} prices", cache.statistics().loads);
    if sum_cents == 100 * (0..9).sum::<u64>() * 100 { Ok(()) } else { Err("a price is wrong".into()) }
}
